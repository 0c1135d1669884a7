package regent_test

import (
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// before returns what a node tells of the term before the one that it leads: by its view, and by its event.
func before(t *testing.T, n *node) (regent.Before, regent.Event) {
	t.Helper()
	v, seen := n.View("seat")
	became := n.kinds(regent.EventBecameLeader)
	if !seen || len(became) == 0 {
		t.Fatalf("%s: seen %v, became leader %d times", n.ID, seen, len(became))
	}
	return v.Before(), became[len(became)-1]
}

func TestEndings(t *testing.T) {
	t.Run("a_first_term_says_that_it_is_the_first", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			time.Sleep(time.Second)
			b, e := before(t, a)
			if b.Reason != regent.ReasonFirst || b.Leader != "" || b.Vacant != -1 {
				t.Errorf("%+v", b)
			}
			if _, measured := e.Measurements["vacantMs"]; measured ||
				e.Metadata["previous_reason"] != string(regent.ReasonFirst) {
				t.Errorf("%+v", e)
			}

			a.quit()
		})
	})

	// Each ends the term of a, on which b waits.
	ways := []struct {
		reason regent.Reason
		least  time.Duration // that the election is vacant
		most   time.Duration
		end    func(*cluster, *node)
	}{
		{"died", 0, 2 * time.Second, func(c *cluster, a *node) {
			register := heartbeat(a)
			l, err := c.store.Get(c.ctx, register)
			if err == nil {
				a.client.SetFaults(cut)
				err = regent.Reap(c.ctx, c.store, register, l.Holder)
			}

			if err != nil {
				t.Fatal(err)
			}
		}},
		{"expired", 0, 2 * time.Second, func(_ *cluster, a *node) { a.client.SetFaults(cut) }},
		{"shutdown", 0, time.Second, func(_ *cluster, a *node) { a.stop() }},
		{"stepped down", 0, time.Second, func(c *cluster, a *node) { go func() { _ = a.StepDown(c.ctx, "seat") }() }},
	}
	for profile, cfg := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
		for _, w := range ways {
			t.Run(profile+"_a_term_that_ended_as_"+string(w.reason), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					a := c.member("a", config(cfg)).lead()
					leader(t, time.Second, a)
					b := c.member("b", config(cfg)).lead()
					time.Sleep(10 * time.Second)
					w.end(c, a)
					leader(t, 90*time.Second, b)
					time.Sleep(time.Second)

					was, e := before(t, b)
					if was.Reason != w.reason || was.Leader != "a" || was.Vacant < w.least || was.Vacant > w.most {
						t.Errorf("%+v", was)
					}
					if e.Metadata["previous_reason"] != string(w.reason) || e.Metadata["previous_leader"] != "a" {
						t.Errorf("%+v", e)
					}
					if _, measured := e.Measurements["vacantMs"]; !measured || e.Measurements["time"] == 0 {
						t.Errorf("measured %v", e.Measurements)
					}

					a.client.SetFaults(memstore.Faults{})
					a.quit()
					b.quit()
				})
			})
		}
	}

	t.Run("a_member_that_has_joined_anew_is_not_called_expired", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			old, err := c.store.Get(c.ctx, driver.MemberRegister("a"))
			check(t, err)
			a.client.SetFaults(cut)
			check(t, regent.Reap(c.ctx, c.store, old.Name, old.Holder))
			a.quit()

			// Another process with its ID joins before anybody has claimed the election, and does not run for it
			// itself.
			again := c.member("a", config(regent.Cluster(), func(c *regent.Config) { c.Register = true }))
			go func() {
				for range again.Watch(c.ctx, "other") {
				}
			}()

			time.Sleep(5 * time.Second)
			b := c.member("b").lead()
			leader(t, 30*time.Second, b)
			time.Sleep(time.Second)
			if was, _ := before(t, b); was.Leader != "a" || was.Reason != "rejoined" {
				t.Errorf("%+v", was)
			}

			b.quit()
		})
	})

	t.Run("a_process_that_was_killed_and_started_again_says_that_it_died", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			old, err := c.store.Get(c.ctx, driver.MemberRegister("a"))
			check(t, err)
			a.client.SetFaults(cut)
			check(t, regent.Reap(c.ctx, c.store, old.Name, old.Holder))
			a.quit()

			again := c.member("a").lead()
			leader(t, 10*time.Second, again)
			time.Sleep(10 * time.Second)
			if was, _ := before(t, again); was.Leader != "a" || was.Reason != "died" {
				t.Errorf("%+v", was)
			}
			if l, err := c.store.Get(c.ctx, old.Name); err != nil || len(l.Past) != 0 {
				t.Errorf("heartbeats carry the past: %v, %v", l.Past, err)
			}

			again.quit()
		})
	})

	t.Run("a_view_whose_history_was_lost_says_so", func(t *testing.T) {
		for name, tt := range map[string]struct {
			view regent.View
			want regent.Reason
		}{
			"nobody ever led":             {regent.View{}, regent.ReasonFirst},
			"the first leader":            {regent.View{Leader: "a", Epoch: 1}, regent.ReasonFirst},
			"a store that was flushed":    {regent.View{Known: 6}, regent.ReasonForgotten},
			"a first leader after that":   {regent.View{Leader: "a", Epoch: 1, Known: 6}, regent.ReasonForgotten},
			"a later one without history": {regent.View{Leader: "a", Epoch: 7}, regent.ReasonForgotten},
			"nobody leads any more": {regent.View{Epoch: 7,
				Past: []driver.Past{{Epoch: 7, Holder: "a", Reason: "paused"}}}, "paused"},
			"nobody has taken over yet": {regent.View{Leader: "a", Epoch: 1, Expired: true}, regent.ReasonExpired},
			"nobody has taken over from a process that died": {regent.View{Leader: "a", Epoch: 8, Expired: true,
				Reason: regent.ReasonDied, Past: []driver.Past{{Epoch: 7, Holder: "a", Reason: "paused"}}},
				regent.ReasonDied},
			"nobody leads, and the last term is not in it": {
				regent.View{Epoch: 7, Past: []driver.Past{{Epoch: 5, Holder: "a", Reason: "paused"}}},
				regent.ReasonForgotten},
		} {
			if got := tt.view.Before(); got.Reason != tt.want || got.Vacant != -1 {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
}

// observe has a member that registers watch another election, so that it joins without a candidacy.
func observe(c *cluster, n *node) {
	go func() {
		for range n.Watch(c.ctx, "other") {
		}
	}()
}

func TestEndingsAfterAnOutage(t *testing.T) {
	for profile, cfg := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
		t.Run(profile+"_a_leader_that_leads_again_tells_how_long_nobody_led", func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a := c.member("a", config(cfg)).lead()
				leader(t, time.Second, a)
				time.Sleep(10 * time.Second)
				a.client.SetFaults(cut)
				for a.leads() {
					time.Sleep(time.Millisecond)
				}

				lost := time.Now()
				time.Sleep(20 * time.Second)
				a.client.SetFaults(memstore.Faults{})
				leader(t, 90*time.Second, a)
				vacant := time.Since(lost)
				time.Sleep(time.Second)

				was, e := before(t, a)
				if was.Leader != "a" || was.Reason != "partition" || (was.Vacant-vacant).Abs() > time.Second {
					t.Errorf("nobody led for %v: %+v", vacant, was)
				}
				if e.Metadata["previous_reason"] != "partition" || e.Measurements["vacantMs"] < 20_000 {
					t.Errorf("%+v", e)
				}

				a.quit()
			})
		})
	}

	// The leader joins again, and does not run any more. Another one takes over, which has not seen the first
	// heartbeat.
	t.Run("another_member_tells_how_long_nobody_led", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			register := config(regent.Cluster(), func(c *regent.Config) { c.Register = true })
			a := c.member("a", register)
			observe(c, a)
			a.lead()
			leader(t, time.Second, a)
			b := c.member("b").lead()
			time.Sleep(10 * time.Second)
			a.client.SetFaults(cut)
			b.client.SetFaults(cut)
			started := time.Now()
			for a.leads() {
				time.Sleep(time.Millisecond)
			}

			lost := time.Now()
			time.Sleep(20 * time.Second)
			a.quit()
			a.client.SetFaults(memstore.Faults{})
			for len(a.kinds(regent.EventMemberJoined)) < 2 {
				time.Sleep(time.Millisecond)
			}

			l, err := c.store.Get(c.ctx, heartbeat(a))
			check(t, err)
			if n := len(l.Past); n != 1 || l.Past[0].Epoch != 1 || l.Past[0].Reason != "partition" ||
				l.Past[0].Ended.Sub(lost).Abs() > time.Second {
				t.Errorf("a lost its lease at %v, and its first heartbeat says %+v", lost, l.Past)
			}

			time.Sleep(10 * time.Second)
			b.client.SetFaults(memstore.Faults{})
			leader(t, 90*time.Second, b)
			led := time.Now()
			time.Sleep(time.Second)

			was, _ := before(t, b)
			longest := led.Sub(started)
			shortest := led.Sub(lost) - regent.Cluster().LeaseDuration
			if was.Leader != "a" || was.Reason != "rejoined" || was.Vacant < shortest || was.Vacant > longest {
				t.Errorf("nobody led for %v to %v: %+v", shortest, longest, was)
			}

			b.quit()
		})
	})

	t.Run("a_member_that_has_lost_its_lease_twice_tells_how_long_nobody_led", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", config(regent.Cluster(), func(c *regent.Config) { c.Register = true }))
			observe(c, a)
			a.lead()
			leader(t, time.Second, a)
			time.Sleep(10 * time.Second)
			lost := time.Now()
			for range 2 {
				a.client.SetFaults(cut)
				time.Sleep(20 * time.Second)
				if a.stop(); a.leads() {
					t.Fatal("it still leads")
				}

				<-a.done
				a.client.SetFaults(memstore.Faults{})
				time.Sleep(20 * time.Second)
			}

			a.lead()
			leader(t, 30*time.Second, a)
			led := time.Now()
			time.Sleep(time.Second)
			shortest, longest := led.Sub(lost)-2*regent.Cluster().LeaseDuration, led.Sub(lost)
			if was, _ := before(t, a); was.Reason != "partition" || was.Vacant < shortest || was.Vacant > longest {
				t.Errorf("nobody led for %v to %v: %+v", shortest, longest, was)
			}

			a.quit()
		})
	})

	t.Run("a_member_that_knows_nothing_of_it_tells_no_vacancy", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			register := config(regent.Cluster(), func(c *regent.Config) { c.Register = true })
			a := c.member("a", register)
			observe(c, a)
			a.lead()
			leader(t, time.Second, a)
			a.client.SetFaults(cut)
			time.Sleep(20 * time.Second)
			a.quit()
			a.client.SetFaults(memstore.Faults{})
			time.Sleep(20 * time.Second)
			b := c.member("b").lead()
			leader(t, 30*time.Second, b)
			time.Sleep(time.Second)
			was, e := before(t, b)
			if was.Leader != "a" || was.Reason != "rejoined" || !was.Ended.IsZero() || was.Vacant != -1 {
				t.Errorf("%+v", was)
			}
			if vacant, there := e.Measurements["vacantMs"]; there {
				t.Errorf("the event says %v", vacant)
			}

			b.quit()
		})
	})
}

// heartbeat names the register that keeps a node's term.
func heartbeat(n *node) string {
	if n.Config.OwnLease {
		return "seat"
	}
	return driver.MemberRegister(n.ID)
}
