package regent_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// obituary is a store that can tell that one incarnation is dead.
type obituary struct {
	*memstore.Client
	dead atomic.Value // of string, the incarnation
	said atomic.Int64 // how often it has said so
}

func (o *obituary) Gone(_ context.Context, l driver.Record) bool {
	dead, _ := o.dead.Load().(string)
	if dead == "" || l.Holder.Incarnation != dead {
		return false
	}

	o.said.Add(1)
	return true
}

func TestWitness(t *testing.T) {
	t.Run("a_member_that_was_proved_dead_and_came_back_is_a_successor_again", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			first, err := c.store.Get(c.ctx, driver.MemberRegister("a"))
			check(t, err)

			w := &obituary{}
			var unhealthy atomic.Bool
			b := c.member("b", func(m *regent.Member) {
				w.Client = m.Store.(*memstore.Client)
				m.Store = w
				m.Health = func(context.Context) error {
					if unhealthy.Load() {
						return errors.New("no disk")
					}
					return nil
				}
			}).lead()
			time.Sleep(5 * time.Second)

			// The process of a dies, and b has that proved.
			a.client.SetFaults(cut)
			for a.leads() {
				time.Sleep(time.Millisecond)
			}

			w.dead.Store(first.Holder.Incarnation)
			leader(t, 20*time.Second, b)
			if w.said.Load() == 0 {
				t.Fatal("b did not ask whether a is dead")
			}

			a.quit()

			// It comes back as another incarnation, with a revision that nobody has called dead.
			again := c.member("a").lead()
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if !b.leads() || len(again.kinds(regent.EventMemberJoined)) != 1 {
				t.Fatalf("b leads %v; a has joined %d times", b.leads(), len(again.kinds(regent.EventMemberJoined)))
			}

			unhealthy.Store(true)
			time.Sleep(time.Minute)
			synctest.Wait()
			if !again.leads() || b.leads() {
				t.Error("b is unhealthy and leads on: it takes a for dead, which came back")
			}

			again.quit()
			b.quit()
		})
	})
}

// What docs/STORES.md says of a host that was restarted: its store proves nothing of the processes
// before, so their leases have to run out, counted from when somebody reads them first.
func TestRestartOfTheHost(t *testing.T) {
	for _, tc := range []struct {
		name    string
		profile regent.Config
		id      string
		after   time.Duration
	}{
		{"the_same_member_leads_after_one_lease_in_profile_cluster", regent.Cluster(), "a", 6 * time.Second},
		{"another_member_waits_for_the_takeover_delay_too_in_profile_cluster", regent.Cluster(), "b", 7 * time.Second},
		{"the_same_member_leads_after_one_lease_in_profile_lock", regent.Lock(), "a", 30 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				old := c.member("a", config(tc.profile)).lead()
				leader(t, time.Second, old)
				time.Sleep(5 * time.Second)
				old.client.SetFaults(cut)
				old.quit()
				time.Sleep(time.Minute)

				again := c.member(tc.id, config(tc.profile), func(m *regent.Member) {
					m.Store = &obituary{Client: m.Store.(*memstore.Client)}
				}).lead()
				_, took := leader(t, 2*time.Minute, again)
				if took < tc.after || took > tc.after+time.Second {
					t.Errorf("it leads after %v, want %v", took, tc.after)
				}

				again.quit()
			})
		})
	}
}
