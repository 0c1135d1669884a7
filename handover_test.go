package regent_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

func TestHandOff(t *testing.T) {
	t.Run("P02_the_named_successor_leads_one_push_and_one_write_later", func(t *testing.T) {
		for _, profile := range []regent.Config{regent.Cluster(), regent.Lock()} {
			bubble(t, func(c *cluster) {
				a := c.member("a", config(profile)).lead()
				leader(t, 5*time.Second, a)
				b, x := c.member("b", config(profile)).lead(), c.member("x", config(profile)).lead()
				time.Sleep(3100 * time.Millisecond) // no heartbeat and no poll is due
				before := x.client.Counts()
				others := b.client.Counts().Writes()
				check(t, a.HandOff(c.ctx, "seat", "x"))
				if n, took := leader(t, time.Second, a, b, x); n != x || took > 5*time.Millisecond {
					t.Errorf("%s leads after %v", n.ID, took)
				}
				if now := x.client.Counts(); now.Writes()-before.Writes() != 1 || now.Total()-before.Total() != 1 {
					t.Errorf("the successor sent %+v, before the handoff %+v: want one write and nothing else", now,
						before)
				}

				if n := b.client.Counts().Writes() - others; n != 0 {
					t.Errorf("another candidate wrote %d times", n)
				}
				if n := c.noted("a stops 1: handoff"); n != 1 {
					t.Errorf("got %q", c.log)
				}

				b.quit()
				x.quit()
				a.quit()
			})
		}
	})

	t.Run("P02_any_member_can_ask_for_it_with_every_notification_lost", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, 5*time.Second, a)
			b := c.member("b").lead()
			for _, n := range []*node{a, b} {
				n.client.Adjust(func(f *faults) { f.LoseNotice = 1 })
			}

			time.Sleep(3 * time.Second)
			ctx, cancel := context.WithTimeout(c.ctx, 20*time.Second)
			defer cancel()
			check(t, b.HandOff(ctx, "seat", "b"))
			leader(t, 10*time.Second, b)
			b.quit()
			a.quit()
		})
	})

	t.Run("a_successor_that_is_not_there_is_refused_and_nothing_is_lost", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, 5*time.Second, a)
			for to, want := range map[string]string{"ghost": `there is no member "ghost"`, "": "name a successor",
				"a": "leads already"} {
				if err := a.HandOff(c.ctx, "seat", to); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("to %q: %v", to, err)
				}
			}

			if err := a.StepDown(c.ctx, "other"); err == nil || !strings.Contains(err.Error(), "nobody leads") {
				t.Errorf("got %v", err)
			}
			if !a.leads() {
				t.Error("a no longer leads")
			}

			a.quit()
		})
	})

	t.Run("a_paused_seat_keeps_its_leader_and_is_claimed_by_nobody_else", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, 5*time.Second, a)
			b := c.member("b").lead()
			time.Sleep(2 * time.Second)
			check(t, b.Pause(c.ctx, "seat"))
			time.Sleep(time.Minute)
			if !a.leads() {
				t.Fatal("the leader did not stay")
			}

			check(t, b.StepDown(c.ctx, "seat"))
			time.Sleep(time.Minute)
			if a.leads() || b.leads() {
				t.Fatal("somebody leads a paused seat")
			}

			check(t, a.Resume(c.ctx, "seat"))
			leader(t, time.Second, a, b)
			a.quit()
			b.quit()
		})
	})

	t.Run("a_seat_can_be_paused_before_anyone_ever_held_it", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			check(t, a.Pause(c.ctx, "seat"))
			a.lead()
			time.Sleep(time.Minute)
			if a.leads() {
				t.Error("it leads")
			}

			check(t, a.Resume(c.ctx, "seat"))
			leader(t, time.Second, a)
			a.quit()
		})
	})
}

func TestHandOffOfAPausedElection(t *testing.T) {
	t.Run("a_paused_election_is_not_handed_off", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			b := c.member("b").lead()
			time.Sleep(2 * time.Second)
			check(t, a.Pause(c.ctx, "seat"))
			time.Sleep(2 * time.Second)
			for _, n := range []*node{a, b} {
				if err := n.HandOff(c.ctx, "seat", "b"); err == nil || !strings.Contains(err.Error(), "paused") {
					t.Errorf("got %v", err)
				}
			}

			if !a.leads() {
				t.Error("nobody leads")
			}

			a.quit()
			b.quit()
		})
	})
}

// moving is a store that calls on once, between a read of a register and whatever follows it.
type moving struct {
	driver.Store
	name string
	on   func()
}

func (m *moving) Get(ctx context.Context, name string) (driver.Record, error) {
	l, err := m.Store.Get(ctx, name)
	if on := m.on; name == m.name && on != nil {
		m.on = nil
		on()
	}

	return l, err
}

func TestAtEpoch(t *testing.T) {
	// asks are all verbs, by whoever is to ask.
	asks := map[string]func(context.Context, *regent.Member, ...regent.Condition) error{
		"hand_off": func(ctx context.Context, m *regent.Member, only ...regent.Condition) error {
			return m.HandOff(ctx, "seat", "c", only...)
		},
		"step_down": func(ctx context.Context, m *regent.Member, only ...regent.Condition) error {
			return m.StepDown(ctx, "seat", only...)
		},
		"pause": func(ctx context.Context, m *regent.Member, only ...regent.Condition) error {
			return m.Pause(ctx, "seat", only...)
		},
		"resume": func(ctx context.Context, m *regent.Member, only ...regent.Condition) error {
			return m.Resume(ctx, "seat", only...)
		},
	}

	for name, ask := range asks {
		t.Run("an_election_that_moves_between_the_read_and_the_swap_is_left_alone_by_"+name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a := c.member("a").lead()
				leader(t, time.Second, a)
				b := c.member("b").lead()
				third := c.member("c").lead()
				time.Sleep(2 * time.Second)
				if name == "resume" {
					check(t, a.Pause(c.ctx, "seat"))
				}

				hook := &moving{Store: c.store.Client("operator", faults{}), name: "seat"}
				hook.on = func() { // the seat changes hands while the operator's request is on its way
					check(t, a.Resume(c.ctx, "seat"))
					time.Sleep(2 * time.Second)
					check(t, a.HandOff(c.ctx, "seat", "b"))
					leader(t, time.Second, b)
					if name == "resume" {
						check(t, b.Pause(c.ctx, "seat"))
					}
				}

				operator := &regent.Member{Store: hook, ID: "operator"}
				var moved *regent.MovedError
				if err := ask(c.ctx, operator, regent.AtEpoch(1)); !errors.As(err, &moved) || moved.Seen != 1 ||
					moved.Epoch != 2 {
					t.Errorf("got %v", err)
				}

				time.Sleep(10 * time.Second)
				l, err := c.store.Get(c.ctx, "seat")
				if err != nil || !b.leads() || l.Epoch != 2 || l.Paused != (name == "resume") || l.Next != "" {
					t.Errorf("the record is %+v, %v", l, err)
				}

				a.quit()
				third.quit()
				b.quit()
			})
		})

		t.Run("the_leader_itself_is_as_strict_with_"+name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a := c.member("a").lead()
				leader(t, time.Second, a)
				other := c.member("c").lead()
				time.Sleep(2 * time.Second)
				var moved *regent.MovedError
				for _, seen := range []uint64{0, 2} {
					if err := ask(c.ctx, a.Member, regent.AtEpoch(seen)); !errors.As(err, &moved) ||
						moved.Seen != seen || moved.Epoch != 1 {
						t.Errorf("at %d: got %v", seen, err)
					}
				}

				if v, _ := a.View("seat"); !a.leads() || v.Paused {
					t.Errorf("it was done all the same: %+v", v)
				}

				check(t, ask(c.ctx, a.Member, regent.AtEpoch(1)))
				a.quit()
				other.quit()
			})
		})
	}

	t.Run("of_two_handoffs_of_one_epoch_at_one_instant_exactly_one_succeeds", func(t *testing.T) {
		for _, from := range [][2]string{{"a", "a"}, {"a", "d"}, {"d", "a"}, {"d", "e"}, {"d", "d"}} { // a leads
			for _, profile := range []regent.Config{regent.Cluster(), regent.Lock()} {
				profile.Register = true
				bubble(t, func(c *cluster) {
					nodes := map[string]*node{}
					for _, id := range []string{"a", "b", "c", "d", "e"} {
						nodes[id] = c.member(id, config(profile)).lead()
						time.Sleep(2 * time.Second)
					}

					errs := make([]error, 2)
					var wg sync.WaitGroup
					for i, to := range []string{"b", "c"} {
						wg.Go(func() { errs[i] = nodes[from[i]].HandOff(c.ctx, "seat", to, regent.AtEpoch(1)) })
					}

					wg.Wait()
					time.Sleep(time.Second)
					var moved *regent.MovedError
					won := 0
					if errs[0] != nil {
						won = 1
					}
					if errs[won] != nil || !errors.As(errs[1-won], &moved) {
						t.Errorf("from %v: %v, and %v", from, errs[0], errs[1])
					}
					if l, _ := c.store.Get(c.ctx, "seat"); l.Epoch != 2 || l.Holder.ID != [2]string{"b", "c"}[won] {
						t.Errorf("from %v: %s leads epoch %d after %v, and %v", from, l.Holder.ID, l.Epoch, errs[0],
							errs[1])
					}

					for _, id := range []string{"d", "e", "a", "c", "b"} {
						nodes[id].quit()
					}
				})
			}
		}
	})

	t.Run("an_election_that_nobody_ever_held_is_in_epoch_0", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			var moved *regent.MovedError
			if err := a.Pause(c.ctx, "seat", regent.AtEpoch(1)); !errors.As(err, &moved) || moved.Epoch != 0 {
				t.Errorf("got %v", err)
			}

			check(t, a.Pause(c.ctx, "seat", regent.AtEpoch(0)))
		})
	})
}

func TestFromInside(t *testing.T) {
	end := map[string]func(context.Context, *regent.Member) error{
		"hand_off":  func(ctx context.Context, m *regent.Member) error { return m.HandOff(ctx, "seat", "b") },
		"step_down": func(ctx context.Context, m *regent.Member) error { return m.StepDown(ctx, "seat") },
	}
	for name, end := range end {
		t.Run("a_duty_that_ends_its_own_term_with_its_own_context_does_not_wait_for_itself_"+name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a := c.member("a")
				ctx, cancel := context.WithCancel(c.ctx)
				done := make(chan struct{})
				duty := regent.Duty{Election: "seat", Run: func(ctx context.Context, term regent.Term) error {
					if term.Epoch > 1 {
						<-ctx.Done()
						return nil
					}

					time.Sleep(10 * time.Second)
					type key struct{}
					began := time.Now()
					check(t, end(context.WithValue(ctx, key{}, "a descendant will do"), a.Member))
					<-ctx.Done()
					if took := time.Since(began); took != 0 || term.Valid() {
						t.Errorf("took %v", took)
					}
					return nil
				}}
				go func() { defer close(done); _ = a.Run(ctx, duty) }()
				leader(t, time.Second, a)
				b := c.member("b").lead()
				if time.Sleep(11 * time.Second); !b.leads() || len(a.kinds(regent.EventDutyStuck)) != 0 {
					t.Errorf("b leads: %t; %v", b.leads(), a.events)
				}

				cancel()
				<-done
				b.quit()
			})
		})

		t.Run("with_any_other_context_it_fails_after_the_stop_timeout_"+name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a := c.member("a")
				b := c.member("b")
				var took time.Duration
				ctx, cancel := context.WithCancel(c.ctx)
				_ = a.Lead(ctx, "seat", func(context.Context, regent.Term) error {
					b.lead()
					time.Sleep(10 * time.Second)
					began := time.Now()
					if err := end(c.ctx, a.Member); err == nil || !strings.Contains(err.Error(), "its own context") {
						t.Errorf("got %v", err)
					}

					took = time.Since(began)
					time.AfterFunc(time.Second, cancel)
					return nil
				})

				if took != time.Second || !b.leads() {
					t.Errorf("took %v; b leads: %t", took, b.leads())
				}

				b.quit()
			})
		})
	}

	t.Run("a_duty_waits_for_the_term_of_another_election", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			var order []string
			go func() {
				defer close(done)
				_ = a.Run(ctx, regent.Duty{Election: "seat", Run: func(ctx context.Context, _ regent.Term) error {
					time.Sleep(5 * time.Second)
					check(t, a.StepDown(ctx, "other"))
					order = append(order, "returned")
					<-ctx.Done()
					return nil
				}}, regent.Duty{Election: "other", Run: func(ctx context.Context, _ regent.Term) error {
					<-ctx.Done()
					time.Sleep(500 * time.Millisecond)
					order = append(order, "stopped")
					return nil
				}})
			}()

			time.Sleep(6 * time.Second)
			synctest.Wait()
			if len(order) != 2 || order[0] != "stopped" {
				t.Errorf("got %q", order)
			}

			cancel()
			<-done
		})
	})
}
