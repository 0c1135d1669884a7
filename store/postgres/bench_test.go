package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/storetest"
)

// rawWrites returns a function that makes n conditional writes over a pool of pgx, each on the revision of the one
// before: the least that a lock in a row needs.
func rawWrites(b *testing.B) func(n int) {
	b.Helper()
	table := newTable(b)
	run(b, "CREATE TABLE "+table+" (name text PRIMARY KEY, rev bigint NOT NULL, holder text NOT NULL) "+
		"WITH (fillfactor = 50)")
	run(b, "INSERT INTO "+table+" VALUES ('lock', 0, '')")
	pool, err := pgxpool.New(b.Context(), shared.URL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)

	revision := int64(0)
	return func(n int) {
		for range n {
			done, err := pool.Exec(b.Context(), "UPDATE "+table+" SET rev = rev + 1, holder = $2 "+
				"WHERE name = 'lock' AND rev = $1", revision, "holder")
			if err != nil || done.RowsAffected() != 1 {
				b.Fatal(done, err)
			}
			revision++
		}
	}
}

// BenchmarkSwap compares swaps with raw conditional writes to the same server.
func BenchmarkSwap(b *testing.B) {
	b.Run("acquire_and_release", func(b *testing.B) {
		s := open(b, Options{Table: newTable(b)})
		raw := rawWrites(b)
		l := storetest.Swap(b, s, held("e", "a", 1))
		storetest.Compare(b, func() {
			l.Holder, l.Epoch, l.Nonce = driver.Identity{ID: "a", Incarnation: "A1"}, l.Epoch+1, l.Nonce+1
			l = storetest.Swap(b, s, l)
			l.Holder, l.Nonce = driver.Identity{}, l.Nonce+1
			l = storetest.Swap(b, s, l)
		}, func() { raw(2) })
	})

	b.Run("renew", func(b *testing.B) {
		s := open(b, Options{Table: newTable(b)})
		raw := rawWrites(b)
		l := storetest.Swap(b, s, held("e", "a", 1))
		storetest.Compare(b, func() {
			l.Nonce++
			l = storetest.Swap(b, s, l)
		}, func() { raw(1) })
	})
}

// BenchmarkLead is one term, from the call of Lead until the election is released, beside two raw writes.
func BenchmarkLead(b *testing.B) {
	for name, cfg := range map[string]regent.Config{"own_lease": regent.Lock(), "by_member": regent.Cluster()} {
		b.Run(name, func(b *testing.B) {
			m := &regent.Member{Store: open(b, Options{Table: newTable(b)}), ID: "a", Config: cfg}
			storetest.RunMember(b, m, regent.Duty{Election: "other"}) // keeps the member running
			eventually(b, "the member runs", func() bool { return m.Stats().Transitions > 0 })
			raw := rawWrites(b)
			storetest.Compare(b, func() {
				err := m.Lead(b.Context(), "e", func(context.Context, regent.Term) error { return nil })
				if err != nil {
					b.Fatal(err)
				}
			}, func() { raw(2) })
		})
	}
}

// BenchmarkTakeover is the time from before a release until another one leads, who has waited, over connections of its
// own, beside a raw write.
func BenchmarkTakeover(b *testing.B) {
	for name, cfg := range map[string]regent.Config{"own_lease": regent.Lock(), "by_member": regent.Cluster()} {
		for _, rest := range []time.Duration{300 * time.Millisecond, 2 * time.Second} {
			b.Run(fmt.Sprintf("%s/after_%v", name, rest), func(b *testing.B) {
				table := newTable(b)
				store := func() driver.Store { return open(b, Options{Table: table}) }
				drivertest.Takeovers(b, cfg, rest, store, rawWrites(b))
			})
		}
	}
}
