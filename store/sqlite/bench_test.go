package sqlite

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// rawUpdates returns the floor: n single-row updates through the same driver with the same settings, on a file of its
// own.
func rawUpdates(b *testing.B) func(n int) {
	db, err := sql.Open("sqlite", dsn(filepath.Join(b.TempDir(), "raw.db"),
		"mode=rwc&_journal_mode=WAL&_synchronous=FULL"))
	if err != nil {
		b.Fatal(err)
	}

	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	text := strings.Repeat("x", len(held("seat", "a", 1).AppendJSON(nil)))
	const create = `CREATE TABLE t (name TEXT PRIMARY KEY, n INTEGER, v TEXT); INSERT INTO t VALUES ('seat', 0, ?)`
	if _, err := db.Exec(create, text); err != nil {
		b.Fatal(err)
	}

	update, err := db.Prepare(`UPDATE t SET n = n + 1, v = ? WHERE name = ?`)
	if err != nil {
		b.Fatal(err)
	}

	return func(n int) {
		for range n {
			if _, err := update.ExecContext(background, text, "seat"); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkSwap(b *testing.B) {
	b.Run("acquire_and_release", func(b *testing.B) {
		s, floor := fresh(b), rawUpdates(b)
		l := storetest.Swap(b, s, held("seat", "a", 1))
		storetest.Compare(b, func() {
			l = storetest.Swap(b, s, driver.Record{Name: l.Name, Rev: l.Rev, Epoch: l.Epoch, Nonce: l.Nonce + 1,
				Duration: l.Duration})
			next := held("seat", "a", l.Nonce+1)
			next.Rev, next.Epoch = l.Rev, l.Epoch+1
			l = storetest.Swap(b, s, next)
		}, func() { floor(2) })
	})

	b.Run("renew", func(b *testing.B) {
		s, floor := fresh(b), rawUpdates(b)
		l := storetest.Swap(b, s, held("seat", "a", 1))
		storetest.Compare(b, func() {
			l.Nonce++
			l = storetest.Swap(b, s, l)
		}, func() { floor(1) })
	})

	b.Run("renew_with_fifty_others", func(b *testing.B) {
		s := fresh(b)
		b.SetParallelism(25)
		next := make(chan driver.Record, 1000)
		for i := range cap(next) {
			next <- storetest.Swap(b, s, held(fmt.Sprint("seat ", i), "a", 1))
		}

		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				l := <-next
				l.Nonce++
				next <- storetest.Swap(b, s, l)
			}
		})
	})
}

func BenchmarkSwapAll(b *testing.B) {
	s := fresh(b)
	ls := make([]driver.Record, 10_000)
	for i := range ls {
		ls[i] = held(fmt.Sprintf("e/%05d", i), "a", 1)
	}

	for b.Loop() {
		for i, o := range s.SwapAll(b.Context(), ls) {
			if o.Err != nil {
				b.Fatal(o.Err)
			}
			ls[i] = o.Record
			ls[i].Nonce++
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := fresh(b)
	storetest.Swap(b, s, held("seat", "a", 1))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Get(b.Context(), "seat"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkList(b *testing.B) {
	s := fresh(b)
	ls := make([]driver.Record, 10_000)
	for i := range ls {
		ls[i] = held(fmt.Sprintf("e/%05d", i), "a", 1)
	}

	s.SwapAll(b.Context(), ls)
	for b.Loop() {
		n := 0
		for _, err := range s.List(b.Context(), "e/") {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}

		if n != len(ls) {
			b.Fatal(n)
		}
	}
}

func BenchmarkFence(b *testing.B) {
	db, err := sql.Open("sqlite", dsn(filepath.Join(b.TempDir(), "app.db"),
		"mode=rwc&_journal_mode=WAL&_synchronous=FULL"))
	if err != nil {
		b.Fatal(err)
	}

	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (0)`); err != nil {
		b.Fatal(err)
	}

	transaction := func(fence bool) {
		tx, err := db.Begin()
		if err != nil {
			b.Fatal(err)
		}

		if fence {
			if err := Fence(b.Context(), tx, regent.Term{Election: "seat", Epoch: 1}); err != nil {
				b.Fatal(err)
			}
		}

		if _, err := tx.Exec(`UPDATE t SET n = n + 1`); err != nil {
			b.Fatal(err)
		}

		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	}

	transaction(true)
	storetest.Compare(b, func() { transaction(true) }, func() { transaction(false) })
}

// BenchmarkRefresh reads registers of which none has changed: all at once, one by one, and as a list.
func BenchmarkRefresh(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		s := fresh(b)
		known := make([]driver.Record, n)
		for i := range known {
			known[i] = held(fmt.Sprintf("seat/of/some/service/%05d", i), "a", 1)
		}

		for i, o := range s.SwapAll(b.Context(), known) {
			if o.Err != nil {
				b.Fatal(o.Err)
			}
			known[i] = o.Record
		}

		b.Run(fmt.Sprintf("%d_by_refresh", n), func(b *testing.B) {
			for b.Loop() {
				for i, o := range s.Refresh(b.Context(), known) {
					if o.Err != nil || o.Record.Rev != known[i].Rev {
						b.Fatal(o)
					}
				}
			}
		})

		b.Run(fmt.Sprintf("%d_by_get", n), func(b *testing.B) {
			for b.Loop() {
				for _, l := range known {
					if got, err := s.Get(b.Context(), l.Name); err != nil || got.Rev != l.Rev {
						b.Fatal(got, err)
					}
				}
			}
		})

		b.Run(fmt.Sprintf("%d_by_list", n), func(b *testing.B) {
			for b.Loop() {
				i := 0
				for l, err := range s.List(b.Context(), "seat/of/some/service/") {
					if err != nil || l.Rev != known[i].Rev {
						b.Fatal(l, err)
					}
					i++
				}
			}
		})
	}
}
