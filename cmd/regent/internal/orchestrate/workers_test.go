package orchestrate

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// unreachable is a transport to workers that cannot be reached.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("no route to host")
}

// watchingTerm is a term that watches the members in a store in memory, and does nothing else.
type watchingTerm struct {
	*term
	t      *testing.T
	store  *memstore.Store
	client *memstore.Client // of the watch
}

// watchTerm starts a term that watches the members. It must be closed.
func watchTerm(t *testing.T) *watchingTerm {
	w := &watchingTerm{term: secondTerm(t, nil), t: t, store: memstore.New()}
	w.client = w.store.Client("leader", memstore.Faults{})
	w.o.opts.Members = (&regent.Member{Store: w.client}).WatchMembers
	w.pool = work.NewPool(t.Context(), w.Term, work.Options{Client: &http.Client{Transport: unreachable{}}})
	w.goroutines.Go(w.watchMembers)

	return w
}

// beater writes the register of a worker.
type beater struct {
	w   *watchingTerm
	rec driver.Record
}

func (w *watchingTerm) join(id string) *beater {
	w.t.Helper()
	b := &beater{w: w, rec: driver.Record{
		Name:     driver.MemberRegister(id),
		Holder:   driver.Identity{ID: id, Incarnation: "1"},
		Addr:     id + ":1",
		Epoch:    1,
		Duration: 6 * time.Second,
		Data:     []byte(`{"worker":true}`),
	}}
	b.beat()
	return b
}

func (b *beater) beat() {
	b.w.t.Helper()
	b.rec.Nonce++
	l, err := b.w.store.Swap(b.w.t.Context(), b.rec)
	if err != nil {
		b.w.t.Fatal(err)
	}
	b.rec = l
}

// usesFor checks for some time that the pool has a worker, or that it has none.
func (w *watchingTerm) usesFor(d time.Duration, workers int) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if all := w.pool.Workers(); len(all) != workers {
			w.t.Fatalf("%v before the end, the workers are %v, want %d", time.Until(end), all, workers)
		}
	}
}

func TestWorkersAreAlive(t *testing.T) {
	t.Run("a_slow_list_does_not_remove_a_live_worker", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			w := watchTerm(t)
			defer w.close()
			b := w.join("b")
			w.replace(nil, entryOf(t, tenSeconds))
			time.Sleep(time.Second)

			// The next list shows the same heartbeat, and returns after the lease.
			w.client.Adjust(func(f *memstore.Faults) { f.Answer.Min = 7 * time.Second })
			w.usesFor(700*time.Millisecond, 1)
			if n := w.client.Counts().Lists; n != 2 {
				t.Fatalf("%d lists were sent, want 2", n)
			}
			for range 20 {
				b.beat()
				w.usesFor(1500*time.Millisecond, 1)
			}
		})
	})

	t.Run("a_worker_that_dies_is_removed_after_its_lease", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			w := watchTerm(t)
			defer w.close()
			b := w.join("b")
			w.replace(nil, entryOf(t, tenSeconds))
			time.Sleep(time.Second)
			w.usesFor(4*time.Second, 1)
			time.Sleep(3 * time.Second) // its lease, and the time until the next list
			w.usesFor(time.Minute, 0)

			b.beat()
			time.Sleep(2 * time.Second)
			w.usesFor(time.Second, 1)
		})
	})

	t.Run("members_that_cannot_be_watched_end_the_watch", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			w := watchTerm(t)
			w.o.opts.Members = (&regent.Member{}).WatchMembers // it has no store
			w.replace(nil, entryOf(t, tenSeconds))
			w.goroutines.Wait()
			w.close()
		})
	})
}
