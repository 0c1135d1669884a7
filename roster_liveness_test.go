package regent_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

func TestMemberLiveness(t *testing.T) {
	t.Run("a_member_that_dies_is_alive_for_its_lease_and_no_longer", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			w := c.watchMembers()
			a := c.joined("a", "1")
			a.keep(time.Minute)
			// The newest heartbeat is received within an interval, and the list that shows the death is an interval
			// later.
			w.changedWithin(6*time.Second, 9*time.Second, "a-")
			w.end()
		})
	})

	t.Run("a_member_that_was_dead_before_is_dead_after_its_lease", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			c.joined("a", "1")
			time.Sleep(time.Hour)
			w := c.watchMembers()
			w.want("a+")
			if s := w.all()[0].states[0]; s.Heartbeats != 1 {
				t.Errorf("%d heartbeats were seen, want 1", s.Heartbeats)
			}

			w.changedWithin(6*time.Second, 7500*time.Millisecond, "a-")
			w.end()
		})
	})

	t.Run("a_member_that_was_frozen_is_alive_again_with_its_next_heartbeat", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			w := c.watchMembers()
			a := c.joined("a", "1")
			time.Sleep(time.Minute)
			w.want("a-")
			a.beat()
			w.changedWithin(0, 1500*time.Millisecond, "a+")
			w.end()
		})
	})

	t.Run("a_member_that_returns_is_a_new_incarnation", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			a.leave()
			time.Sleep(time.Minute)
			w.want("a-")
			c.joined("a", "2")
			w.changedWithin(0, 300*time.Millisecond, "a+")

			// So does one that returns while its lease runs: what was yielded differs.
			n := len(w.all())
			c.joined("a", "3")
			time.Sleep(time.Second)
			all := w.all()
			if len(all) != n+1 || all[n].states[0].Incarnation != "3" {
				t.Errorf("yielded %+v", all[n:])
			}

			w.end()
		})
	})

	t.Run("an_edit_of_the_register_gives_no_time", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			for range 8 {
				time.Sleep(time.Second)
				a.rec.Edits++
				a.swap()
			}

			w.want("a-")
			if s := w.all()[1].states[0]; s.Heartbeats != 1 {
				t.Errorf("%d heartbeats were seen, want 1", s.Heartbeats)
			}

			w.end()
		})
	})

	t.Run("each_member_has_the_lease_that_it_says", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			w := c.watchMembers()
			c.joined("a", "1")
			b := c.joined("b", "1")
			b.rec.Duration = 20 * time.Second
			b.beat()
			none := c.joined("c", "1")
			none.rec.Duration = 0
			none.beat()
			w.changedWithin(0, 2*time.Second, "a+ b+ c-")
			w.changedWithin(5*time.Second, 8*time.Second, "a- b+ c-")
			w.changedWithin(12*time.Second, 16*time.Second, "a- b- c-")
			w.end()
		})
	})

	t.Run("a_register_that_no_member_has_written_is_not_alive", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			_, err := c.store.Swap(c.ctx, driver.Record{Name: driver.MemberRegister("a"), Nonce: 1, Duration: time.Hour,
				Holder: driver.Identity{ID: "b", Incarnation: "1"}})
			check(t, err)
			w := c.watchMembers()
			w.want("a-")
			w.end()
		})
	})

	t.Run("the_age_of_a_heartbeat_is_known_at_each_list", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			r := (&regent.Member{Store: c.store}).NewRoster()
			list := func(want regent.MemberState) {
				t.Helper()
				states, err := r.List(c.ctx)
				check(t, err)
				want.ID = "a"
				want.Incarnation = "1"
				want.Eligible = true
				want.Healthy = true
				want.Lease = 6 * time.Second
				want.Rev = a.rec.Rev
				if len(states) != 1 || fmt.Sprintf("%+v", states[0]) != fmt.Sprintf("%+v", want) {
					t.Errorf("got %+v\nwant %+v", states, want)
				}

				time.Sleep(4 * time.Second)
			}
			list(regent.MemberState{Alive: true, Heartbeats: 1})
			list(regent.MemberState{Alive: true, Heartbeats: 1, HeartbeatAge: 4 * time.Second})
			list(regent.MemberState{Heartbeats: 1, HeartbeatAge: 8 * time.Second})
			a.beat()
			list(regent.MemberState{Alive: true, Heartbeats: 2})
		})
	})
}
