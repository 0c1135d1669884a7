package health

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent/driver"
)

// TestLiveMembersAreNeverUnreachable has heartbeats that are late but within their lease, members that can and cannot
// be reached, listings that are slow or fail, and notifications, all at random: no member is ever unreachable or gone.
func TestLiveMembersAreNeverUnreachable(t *testing.T) {
	for seed := range uint64(10) {
		runVirtual(t, func(w *virtualCluster) {
			g := rand.New(rand.NewPCG(seed, 2))
			w.join("a", "b", "c", "d")
			w.opts.Interval = 1 + time.Duration(g.Int64N(int64(40*time.Second))) + time.Second
			for _, m := range w.members {
				m.beats = new(uint64)
			}

			m, stop := w.run()
			var beats sync.WaitGroup
			for i, member := range w.members {
				g := rand.New(rand.NewPCG(seed, uint64(i)))
				beats.Go(func() {
					for time.Since(w.start) < time.Hour {
						time.Sleep(time.Duration(1 + g.Int64N(int64(lease)-1)))
						w.mu.Lock()
						*member.beats++
						w.mu.Unlock()
					}
				})
			}

			for time.Since(w.start) < time.Hour {
				time.Sleep(time.Duration(g.Int64N(int64(10 * time.Second))))
				w.mu.Lock()
				f := w.members[g.IntN(4)]
				f.cut = g.IntN(2) == 0
				f.slow = time.Duration(g.Int64N(int64(3 * time.Second)))
				w.request = time.Duration(g.Int64N(int64(3 * time.Second)))
				w.answer = time.Duration(g.Int64N(int64(3 * time.Second)))
				w.fail = nil
				if g.IntN(5) == 0 {
					w.fail = errors.New("no")
				}
				w.mu.Unlock()

				if g.IntN(3) == 0 {
					select {
					case w.changed <- driver.Record{}:
					default:
					}
				}
				if c := m.Snapshot(); c.Counts.Unreachable+c.Counts.Gone > 0 {
					t.Errorf("seed %d, after %v: %+v", seed, time.Since(w.start), c)
					break
				}
			}

			for _, e := range w.memberEvents() {
				if strings.HasPrefix(e, "node_down") {
					t.Errorf("seed %d: %s", seed, e)
				}
			}
			stop()
			beats.Wait()
			synctest.Wait()
		})
	}
}

// TestSlowList has a list show the same heartbeat as the one before, and return after the lease.
func TestSlowList(t *testing.T) {
	t.Run("a_slow_list_does_not_make_a_live_member_unreachable", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.opts.ListTimeout = 3 * lease
			w.join("a", "b")
			beats := new(uint64)
			w.change("b", func(f *fakeMember) { f.beats = beats })
			heartbeat := func(d time.Duration) {
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(interval) {
					w.change("b", func(*fakeMember) { *beats++ })
				}
			}
			m, stop := w.run()
			heartbeat(45 * time.Second)
			w.changed <- driver.Record{} // a list, at once
			synctest.Wait()

			w.mu.Lock()
			w.answer = lease + time.Second
			w.mu.Unlock()
			before := w.lists.Load()
			w.changed <- driver.Record{} // the next list, a second later
			time.Sleep(w.opts.withDefaults().Recheck)
			synctest.Wait()
			if n := w.lists.Load() - before; n != 1 {
				t.Fatalf("%d lists are under way", n)
			}

			heartbeat(lease + 2*time.Second)
			c := m.Snapshot()
			b := c.member("b")
			if b.Status != Healthy || b.LastSeenMs-c.CheckedAgoMs > interval.Milliseconds() {
				t.Errorf("got %+v", b)
			}
			w.wantEvents()
			stop()
		})
	})
}
