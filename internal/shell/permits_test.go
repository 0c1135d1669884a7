package shell

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// slow is a store without batches in which some writes and all removals take their time.
type slow struct {
	*memstore.Client
	elected string       // writes of elections whose names begin so
	takes   atomic.Int64 // nanoseconds

	mu   sync.Mutex
	last time.Time     // when the last heartbeat arrived
	gap  time.Duration // the longest time between two of them
}

// beats notes a heartbeat.
func (s *slow) beats() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.IsZero() {
		s.gap = max(s.gap, time.Since(s.last))
	}
	s.last = time.Now()
}

// longest returns the longest time between two heartbeats.
func (s *slow) longest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gap
}

func (s *slow) wait(ctx context.Context) {
	select {
	case <-time.After(time.Duration(s.takes.Load())):
	case <-ctx.Done():
	}
}

// Swap is for driver.Store.
func (s *slow) Swap(ctx context.Context, r driver.Record) (driver.Record, error) {
	if s.elected != "" && strings.HasPrefix(r.Name, s.elected) {
		s.wait(ctx)
	} else {
		s.beats()
	}
	return s.Client.Swap(ctx, r)
}

// Remove is for driver.Remover.
func (s *slow) Remove(ctx context.Context, r driver.Record) error {
	s.wait(ctx)
	return s.Client.Remove(ctx, r)
}

// unbatched hides what a store can do with many registers at once.
type unbatched struct {
	driver.Store
	driver.Notifier
	driver.Remover
}

// leader starts a process over a slow store that leads the election e.
func leader(t *testing.T, store *slow, cfg core.Config) *process {
	t.Helper()
	p := &process{t: t, id: cfg.ID, results: map[uint64]core.Result{}}
	p.run(unbatched{store, store, store}, cfg)
	p.shell.Do(core.Join{}, core.Campaign{Election: "e"})
	await(t, "leads", 2*time.Second, func() bool { return p.leads("e") })
	return p
}

// A heartbeat does not wait for other requests, however many there are.
func TestHeartbeatsComeFirst(t *testing.T) {
	const (
		many = 3000
		busy = 500 * time.Millisecond // for so long a request keeps its permit
	)
	for name, config := range configs {
		t.Run("before_claims/"+name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				cfg := config("a")
				store := &slow{Client: memstore.New().Client("a", memstore.Faults{}), elected: "f"}
				p := leader(t, store, cfg)
				defer p.shell.Close()
				term := p.term()
				store.takes.Store(int64(busy))
				for i := range many {
					p.shell.Do(core.Campaign{Election: fmt.Sprintf("f%d", i)})
				}
				time.Sleep(30 * time.Second)
				equal(t, "the term goes on", term.Valid(), true)
				if gap := store.longest(); gap > cfg.RenewInterval+busy {
					t.Errorf("%v between two heartbeats", gap)
				}
				store.takes.Store(0)
			})
		})

		t.Run("before_removals/"+name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				cfg := config("a")
				cfg.Rest = driver.Rest
				store := &slow{Client: memstore.New().Client("a", memstore.Faults{})}
				for i := range many {
					left(t, store.Client, fmt.Sprintf("old%d", i), 7)
				}
				p := leader(t, store, cfg)
				defer p.shell.Close()
				term := p.term()
				for i := range many {
					p.shell.Do(core.Retire{ID: uint64(i + 1), Register: fmt.Sprintf("old%d", i)})
				}
				time.Sleep(driver.Rest - time.Minute)
				store.takes.Store(int64(busy))
				time.Sleep(2 * time.Minute)
				equal(t, "the term goes on", term.Valid(), true)
				if gap := store.longest(); gap > cfg.RenewInterval+busy {
					t.Errorf("%v between two heartbeats", gap)
				}
				store.takes.Store(0)
			})
		})
	}
}

// request returns a job that asks for one thing.
func request(t *testing.T, verb core.Verb, urgent bool) *job {
	j := &job{verb: verb, sends: []core.Send{{Verb: verb, Urgent: urgent}}}
	j.ctx, j.cancel = context.WithTimeout(t.Context(), time.Hour)
	return j
}

// Who has waited for a permit goes by urgency: heartbeats, other writes, reads, removals. So does what comes at once.
func TestOrderOfRequests(t *testing.T) {
	removal := request(t, core.Remove, false)
	read := request(t, core.Get, false)
	write := request(t, core.Swap, false)
	heartbeat := request(t, core.Swap, true)
	jobs := []*job{removal, read, write, heartbeat}
	want := []*job{heartbeat, write, read, removal}

	t.Run("of_those_that_wait", func(t *testing.T) {
		var r requests
		r.active = maxActive
		for _, j := range jobs {
			equal(t, "admitted", len(r.admit([]*job{j})), 0)
		}
		for i, j := range want {
			next := r.done(request(t, core.Get, false))
			equal(t, "next", len(next), 1)
			equal(t, fmt.Sprintf("number %d", i), next[0] == j, true)
		}
	})

	t.Run("of_those_that_come_at_once", func(t *testing.T) {
		var r requests
		r.active = maxActive - 1
		run := r.admit(slices.Clone(jobs))
		equal(t, "admitted", len(run), 1)
		equal(t, "the heartbeat", run[0] == heartbeat, true)
	})
}
