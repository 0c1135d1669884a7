package regent_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestLifeline(t *testing.T) {
	for name, profile := range map[string]regent.Config{"by_heartbeat": regent.Cluster(), "own_lease": regent.Lock()} {
		t.Run("C07_a_companion_that_knows_the_lifeline_frees_the_seat_of_a_dead_process_at_once_"+name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				var mu sync.Mutex
				var lines []regent.Lifeline
				a := c.member("a", config(profile), func(m *regent.Member) {
					m.OnLifeline = func(l regent.Lifeline) { mu.Lock(); lines = append(lines, l); mu.Unlock() }
				}).lead()
				leader(t, time.Second, a)
				b := c.member("b", config(profile)).lead()
				time.Sleep(35 * time.Second)
				mu.Lock()
				last := lines[len(lines)-1]
				if len(lines) < 4 || last.Over || last.Left <= 0 || last.Holder.ID != "a" {
					t.Errorf("%d lines, the last is %+v", len(lines), last)
				}
				mu.Unlock()
				a.client.SetFaults(cut) // killed
				check(t, regent.Reap(c.ctx, c.store, last.Register, last.Holder))
				if _, took := leader(t, time.Second, b); took > 5*time.Millisecond {
					t.Errorf("took %v", took)
				}
				// Again, or for an incarnation that is not there: it touches nothing.
				before := c.store.Counts().Writes()
				check(t, regent.Reap(c.ctx, c.store, last.Register, last.Holder))
				check(t, regent.Reap(c.ctx, c.store, "seat", last.Holder))
				check(t, regent.Reap(c.ctx, c.store, "no such", last.Holder))
				if got := c.store.Counts().Writes(); got != before || !b.leads() {
					t.Errorf("%d writes", got-before)
				}
				b.quit()
				a.client.SetFaults(memstore.Faults{})
				a.quit()
				if l := lines[len(lines)-1]; !l.Over || !l.Stopped {
					t.Errorf("the last line is %+v", l)
				}
			})
		})
	}

	t.Run("reaping_goes_on_until_it_is_known_or_its_context_ends", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			dead := driver.Identity{ID: "a", Incarnation: "x"}
			_, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Holder: dead, Epoch: 3, Nonce: 1, Duration: time.Minute, Data: []byte("kept")})
			check(t, err)
			client := c.store.Client("reaper", memstore.Faults{Outage: true})
			ctx, cancel := context.WithTimeout(c.ctx, time.Second)
			if err := regent.Reap(ctx, client, "seat", dead); err == nil {
				t.Error("it said that it had reaped")
			}
			cancel()
			time.AfterFunc(time.Second, func() { client.SetFaults(memstore.Faults{}) })
			check(t, regent.Reap(c.ctx, client, "seat", dead))
			l, _ := c.store.Get(c.ctx, "seat")
			if !l.Vacant() || l.Epoch != 3 || string(l.Data) != "kept" || l.Past[0].Reason != "died" {
				t.Errorf("record is %+v", l)
			}
		})
	})
}
