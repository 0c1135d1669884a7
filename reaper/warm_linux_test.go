package reaper

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/reaper/internal/redistest"
	_ "modernc.org/sqlite"
)

// heldRecord is the register of a line, as its holder has written it.
func heldRecord(l line) driver.Record {
	return driver.Record{Name: l.Register, Holder: l.holder(), Epoch: 1, Nonce: 1, Duration: time.Minute}
}

// TestPrepared is about a store that is opened while the process lives, and used when the process has died.
func TestPrepared(t *testing.T) {
	dead := held("1", 0)

	t.Run("the_first_requests_come_before_the_death_and_no_others_until_then", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := memstore.New()
			written, err := store.Swap(t.Context(), heldRecord(dead))
			if err != nil {
				t.Fatal(err)
			}

			client := store.Client("reaper", memstore.Faults{})
			open := func(context.Context, string) (driver.Store, error) { return client, nil }
			l := newLink(t.Context(), open, "", slog.New(slog.DiscardHandler))
			l.prepare(dead.Register)
			synctest.Wait()

			if got, want := client.Counts(), (memstore.Counts{Gets: 1, Swaps: 1}); got != want {
				t.Errorf("first requests: %+v, not %+v", got, want)
			}

			time.Sleep(24 * time.Hour)
			l.prepare(dead.Register) // as with every renewal
			synctest.Wait()
			if got := client.Counts().Total(); got != 2 {
				t.Errorf("%d requests while the process lives", got)
			}

			if now, err := store.Get(t.Context(), dead.Register); err != nil || now.Rev != written.Rev {
				t.Errorf("the first requests have changed the register: %+v, %v", now, err)
			}

			if err := l.release(t.Context(), dead); err != nil || client.Counts().Total() != 4 {
				t.Errorf("%v after %+v", err, client.Counts())
			}
		})
	})

	t.Run("a_store_that_is_opened_after_the_death_gets_no_first_requests", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := memstore.New()
			if _, err := store.Swap(t.Context(), heldRecord(dead)); err != nil {
				t.Fatal(err)
			}

			client := store.Client("reaper", memstore.Faults{})
			open := func(context.Context, string) (driver.Store, error) { return client, nil }
			l := newLink(t.Context(), open, "", slog.New(slog.DiscardHandler))
			err := l.release(t.Context(), dead)
			synctest.Wait()
			if err != nil || client.Counts().Total() != 2 {
				t.Errorf("%v after %+v", err, client.Counts())
			}
		})
	})

	t.Run("a_store_that_hangs_at_the_first_requests_is_used_when_it_answers_again", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := memstore.New()
			if _, err := store.Swap(t.Context(), heldRecord(dead)); err != nil {
				t.Fatal(err)
			}

			client := store.Client("reaper", memstore.Faults{CutRequests: true})
			open := func(context.Context, string) (driver.Store, error) { return client, nil }
			l := newLink(t.Context(), open, "", slog.New(slog.DiscardHandler))
			l.prepare(dead.Register)
			time.Sleep(time.Minute)
			client.SetFaults(memstore.Faults{})

			began := time.Now()
			if err := l.release(t.Context(), dead); err != nil || time.Since(began) > 50*time.Millisecond {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
	})
}

// openSQLite returns a link to a SQLite file which the line's process holds, once its first requests are done, and how
// often the store was asked and opened.
func openSQLite(t *testing.T, path string, dead line) (l *link, gets, opened *atomic.Int64) {
	t.Helper()
	gets, opened = new(atomic.Int64), new(atomic.Int64)
	dial := func(ctx context.Context, _ string) (driver.Store, error) {
		opened.Add(1)
		store, err := open(ctx, "sqlite:"+path)
		if err != nil {
			return nil, err
		}
		return &countedStore{store, gets}, nil
	}

	writer, err := open(t.Context(), "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()

	if _, err := writer.Swap(t.Context(), heldRecord(dead)); err != nil {
		t.Fatal(err)
	}

	log := &opensLog{open: make(chan struct{}, 8)}
	l = newLink(t.Context(), dial, "", slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	l.prepare(dead.Register)
	select {
	case <-log.open:
	case <-time.After(within):
		t.Fatal("the store was not opened")
	}

	return l, gets, opened
}

// countedStore counts the reads of a real store.
type countedStore struct {
	driver.Store
	gets *atomic.Int64
}

func (s *countedStore) Get(ctx context.Context, name string) (driver.Record, error) {
	s.gets.Add(1)
	return s.Store.Get(ctx, name)
}

// opensLog reports the line by which a link says that its store is open.
type opensLog struct{ open chan struct{} }

func (l *opensLog) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "store is open") {
		l.open <- struct{}{}
	}
	return len(b), nil
}

// TestPreparedSQLite is about a real file that stays open for as long as the process lives.
func TestPreparedSQLite(t *testing.T) {
	dead := held("1", 0)

	t.Run("an_open_store_holds_no_lock_and_no_snapshot", func(t *testing.T) {
		path := filepath.Join(shm(t), "regent.db")
		l, _, _ := openSQLite(t, path, dead)
		defer l.close()

		db, err := sql.Open("sqlite", "file:"+path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)

		// A write lock would refuse this, and a snapshot of a reader would keep the log from being emptied.
		if _, err := db.Exec("BEGIN EXCLUSIVE; ROLLBACK"); err != nil {
			t.Error(err)
		}

		var blocked, pages, moved int
		if err := db.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&blocked, &pages, &moved); err != nil ||
			blocked != 0 {
			t.Errorf("checkpoint: blocked %d, %v", blocked, err)
		}
	})

	t.Run("a_file_that_was_replaced_is_opened_again_at_the_first_error", func(t *testing.T) {
		dir := shm(t)
		path := filepath.Join(dir, "regent.db")
		l, gets, opened := openSQLite(t, path, dead)
		defer l.close()

		other := filepath.Join(dir, "other.db")
		copied, _, _ := openSQLite(t, other, dead)
		copied.close()
		if err := os.Rename(other, path); err != nil {
			t.Fatal(err)
		}

		for _, suffix := range []string{"-wal", "-shm", "-wake"} {
			if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}

		before := gets.Load()
		if err := l.release(t.Context(), dead); err != nil {
			t.Fatal(err)
		}
		if asked := gets.Load() - before; opened.Load() != 2 || asked != 2 {
			t.Errorf("opened %d times, asked %d times: once the old file, once the new one", opened.Load(), asked)
		}

		fresh, err := open(t.Context(), "sqlite:"+path)
		if err != nil {
			t.Fatal(err)
		}
		defer fresh.Close()

		if got, err := fresh.Get(t.Context(), dead.Register); err != nil || !got.Vacant() {
			t.Errorf("in the new file: %+v, %v", got, err)
		}
	})
}

// TestPreparedRedis is about a real server that ends every connection while the process lives.
func TestPreparedRedis(t *testing.T) {
	needsProcesses(t)
	dead := held("1", 0)
	address := redistest.Start(t)
	store, err := open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Swap(t.Context(), heldRecord(dead)); err != nil {
		t.Fatal(err)
	}

	log := &opensLog{open: make(chan struct{}, 8)}
	l := newLink(t.Context(), open, address,
		slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer l.close()
	l.prepare(dead.Register)
	<-log.open

	option, err := rueidis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()

	kill := admin.B().Arbitrary("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Build()
	if n, err := admin.Do(t.Context(), kill).AsInt64(); err != nil || n < 2 {
		t.Fatalf("%d connections ended, %v", n, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := l.release(ctx, dead); err != nil {
		t.Fatal(err)
	}

	if got, err := store.Get(ctx, dead.Register); err != nil || !got.Vacant() {
		t.Errorf("%+v, %v", got, err)
	}
}

// shm returns a directory in memory: what is tested is not the disk.
func shm(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "regent-reaper-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
