package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/pgtest"
	"github.com/regentd/regent/storetest"
)

// ownServer starts a server for one test.
func ownServer(t *testing.T) *pgtest.Server {
	t.Helper()
	return started(t)(pgtest.Start(serversDir(t), "own"))
}

// started returns a server that was started without an error, and stops it when the test ends.
func started(t *testing.T) func(*pgtest.Server, error) *pgtest.Server {
	t.Helper()
	return func(s *pgtest.Server, err error) *pgtest.Server {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Stop() })
		return s
	}
}

// serversDir returns a directory that is removed after the servers in it have ended.
func serversDir(t *testing.T) string {
	t.Helper()
	dir, err := pgtest.Dir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// unknown swaps l, and fails if the outcome is anything but unknown.
func unknown(t *testing.T, s *Store, l driver.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := s.Swap(ctx, l)
	if err == nil || errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrNotFound) {
		t.Errorf("a swap while the server is away: %v, want an unknown outcome", err)
	}
	if took := time.Since(began); took > within {
		t.Errorf("it took %v to return after its context had ended", took)
	}
}

// again swaps until it succeeds, from what the store shows.
func again(t *testing.T, s *Store, name string) driver.Record {
	t.Helper()
	var l driver.Record
	eventually(t, "a swap succeeds again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		got, err := s.Get(ctx, name)
		if err != nil {
			return false
		}
		got.Nonce++
		l, err = s.Swap(ctx, got)
		return err == nil
	})
	return l
}

// listens waits until a subscription receives what the store has changed.
func listens(t *testing.T, s *Store, woken <-chan driver.Record) {
	t.Helper()
	end := time.After(within)
	for n := 0; ; n++ {
		l, err := s.Get(t.Context(), "probe")
		if errors.Is(err, driver.ErrNotFound) {
			l, err = driver.Record{Name: "probe"}, nil
		}
		if err == nil {
			l.Holder = driver.Identity{ID: fmt.Sprint(n), Incarnation: "X"}
			l.Nonce++
			_, _ = s.Swap(t.Context(), l)
		}

		select {
		case got := <-woken:
			if got.Name == "probe" {
				return
			}
		case <-time.After(200 * time.Millisecond):
		case <-end:
			t.Fatal("notifications do not arrive again")
		}
	}
}

func TestServerRestarted(t *testing.T) {
	srv := ownServer(t)
	s := storetest.Opened[*Store](t)(Open(t.Context(), srv.URL(), Options{}))
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	l := storetest.Swap(t, s, held("a", "x", 1))
	listens(t, s, woken)

	_ = srv.Stop()
	unknown(t, s, l)
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	if got := again(t, s, "a"); got.Rev == l.Rev {
		t.Error("a revision was used again")
	}
	listens(t, s, woken)
}

func TestTerminatedBackends(t *testing.T) {
	srv := ownServer(t)
	s := storetest.Opened[*Store](t)(Open(t.Context(), srv.URL(), Options{}))
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	storetest.Swap(t, s, held("a", "x", 1))
	listens(t, s, woken)

	admin := connect(t, srv.URL())
	for range 3 {
		_, err := admin.Exec(t.Context(),
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'regent'")
		if err != nil {
			t.Fatal(err)
		}
		again(t, s, "a")
		listens(t, s, woken)
	}
}

// TestReadOnly makes a server refuse writes while its connections stay open, as a failover can.
func TestReadOnly(t *testing.T) {
	srv := ownServer(t)
	s := storetest.Opened[*Store](t)(Open(t.Context(), srv.URL(), Options{}))
	l := storetest.Swap(t, s, held("a", "x", 1))

	admin := connect(t, srv.URL())
	set := func(value string) {
		t.Helper()
		for _, text := range []string{
			"SET transaction_read_only = off", "ALTER SYSTEM SET default_transaction_read_only = " + value,
			"SELECT pg_reload_conf()",
		} {
			if _, err := admin.Exec(t.Context(), "SET default_transaction_read_only = off"); err != nil {
				t.Fatal(err)
			}
			if _, err := admin.Exec(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
	}

	set("on")
	eventually(t, "the server is read-only", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		got, err := s.Swap(ctx, l)
		if err == nil {
			l = got
			return false
		}
		if errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrRefused) {
			t.Fatalf("a swap on a read-only server: %v, want an unknown outcome", err)
		}
		return true
	})
	set("off")
	again(t, s, "a")
}

// silence is a proxy that can fall silent: it accepts and delivers nothing.
type silence struct {
	addr   string
	silent atomic.Bool
	cut    atomic.Bool // connections are closed, and new ones refused
	mu     sync.Mutex
	conns  []net.Conn
}

func newSilence(t *testing.T, to string) *silence {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &silence{addr: l.Addr().String()}
	t.Cleanup(func() {
		l.Close()
		p.close()
	})

	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if p.cut.Load() {
				c.Close()
				continue
			}
			up, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, c, up)
			p.mu.Unlock()
			go p.copy(up, c)
			go p.copy(c, up)
		}
	}()
	return p
}

func (p *silence) copy(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		for p.silent.Load() {
			time.Sleep(time.Millisecond) // until it speaks again
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				from.Close()
			}
			return
		}
	}
}

func (p *silence) close() {
	p.silent.Store(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *silence) url(s *pgtest.Server) string {
	return strings.Replace(s.URL(), s.Addr(), p.addr, 1)
}

// TestHungServer asks a server that is silent: requests return with their contexts, and all is well when it speaks.
func TestHungServer(t *testing.T) {
	p := newSilence(t, shared.Addr())
	s := storetest.Opened[*Store](t)(Open(t.Context(), p.url(shared), Options{Table: newTable(t)}))
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	l := storetest.Swap(t, s, held("a", "x", 1))
	listens(t, s, woken)

	p.silent.Store(true)
	for range 20 { // more than the pool has connections
		unknown(t, s, l)
	}
	p.silent.Store(false)
	again(t, s, "a")
	listens(t, s, woken)
}

// workers counts the duties that run at once, and the epochs in which they began.
type workers struct {
	mu     sync.Mutex
	now    int
	most   int
	epochs []uint64
}

func (w *workers) run(ctx context.Context, term regent.Term) error {
	w.mu.Lock()
	w.now++
	w.most = max(w.most, w.now)
	w.epochs = append(w.epochs, term.Epoch)
	w.mu.Unlock()

	<-ctx.Done()
	w.mu.Lock()
	w.now--
	w.mu.Unlock()
	return ctx.Err()
}

func (w *workers) last() (epoch uint64, running bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.epochs) == 0 {
		return 0, false
	}
	return w.epochs[len(w.epochs)-1], w.now > 0
}

// TestFailoverThatLosesWrites promotes a replica that has not received the last claim. The cluster never has two
// leaders at once, and the next epoch is higher than the one that was lost.
func TestFailoverThatLosesWrites(t *testing.T) {
	dir := serversDir(t)
	primary := started(t)(pgtest.Start(dir, "primary"))
	replica, err := pgtest.New(dir, "replica")
	if err != nil {
		t.Fatal(err)
	}
	out, err := replica.Command("pg_basebackup", "-D", replica.Data, "-R", "-X", "stream", "-c", "fast", "-d",
		primary.URL()).CombinedOutput()
	if err != nil {
		t.Fatalf("pg_basebackup: %v: %s", err, out)
	}
	started(t)(replica, replica.Start())
	var warned []string
	admin := connect(t, primary.URL())
	eventually(t, "the replica is attached", func() bool {
		var n int
		return admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_replication").Scan(&n) == nil && n > 0
	})
	storetest.Opened[*Store](t)(Open(t.Context(), primary.URL(), Options{OnWarning: func(w string) {
		warned = append(warned, w)
	}}))
	if len(warned) != 2 || !strings.Contains(warned[1], "synchronous_standby_names is empty") {
		t.Errorf("an asynchronous replica is warned of with %q", warned)
	}

	both := fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable", primary.Addr(), replica.Addr())
	var w workers
	stops := map[string]func(){}
	for _, id := range []string{"a", "b"} {
		s := storetest.Opened[*Store](t)(Open(t.Context(), both, Options{}))
		m := &regent.Member{ID: id, Store: s, Config: regent.Cluster()}
		stops[id] = storetest.RunMember(t, m, regent.Duty{Election: "e", Run: w.run})
	}
	eventually(t, "a first leader", func() bool { _, running := w.last(); return running })

	// The replica is frozen, so it does not receive what is written from now on.
	admin = connect(t, replica.URL())
	var receiver int
	eventually(t, "the replica receives, and has the first term", func() bool {
		var held bool
		err := admin.QueryRow(t.Context(), "SELECT holder <> '' FROM regent_register WHERE name = 'e'").Scan(&held)
		return err == nil && held &&
			admin.QueryRow(t.Context(), "SELECT pid FROM pg_stat_wal_receiver").Scan(&receiver) == nil
	})
	if err := syscall.Kill(receiver, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	// The leader hands over: a claim that the replica will not have.
	before, _ := w.last()
	s := storetest.Opened[*Store](t)(Open(t.Context(), primary.URL(), Options{}))
	l, err := s.Get(t.Context(), "e")
	if err != nil {
		t.Fatal(err)
	}
	stops[l.Holder.ID]()
	var lost uint64
	eventually(t, "the other member leads", func() bool {
		epoch, running := w.last()
		lost = epoch
		return running && epoch > before
	})

	_ = primary.Stop()
	_ = syscall.Kill(receiver, syscall.SIGKILL) // what it has not received is lost; the replica starts again
	query := func(text string, dest ...any) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, replica.URL())
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		return conn.QueryRow(ctx, text).Scan(dest...)
	}
	eventually(t, "the replica is promoted", func() bool {
		var promoted bool
		return query("SELECT NOT pg_is_in_recovery() OR pg_promote()", &promoted) == nil && promoted
	})

	eventually(t, "a leader after the failover, beyond the lost epoch or in it", func() bool {
		var epoch uint64
		var holder string
		err := query("SELECT epoch::bigint, holder FROM regent_register WHERE name = 'e'", &epoch, &holder)
		running, now := w.last()
		return err == nil && holder != "" && epoch >= lost && now && running == epoch
	})

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.most != 1 {
		t.Errorf("%d duties ran at once", w.most)
	}
	for i := 1; i < len(w.epochs); i++ {
		if w.epochs[i] <= w.epochs[i-1] {
			t.Errorf("epochs %v do not increase", w.epochs)
		}
	}
}
