package regent_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

// failing is a duty that fails while broken says so.
func failing(broken *atomic.Bool) regent.Duty {
	return regent.Duty{Election: "seat", Name: "sync", Run: func(ctx context.Context, _ regent.Term) error {
		if broken.Load() {
			return errors.New("no luck")
		}

		<-ctx.Done()
		return nil
	}}
}

// campaign runs the duties on a node until the cluster ends.
func (n *node) campaign(duties ...regent.Duty) *node {
	ctx, cancel := context.WithCancel(n.c.ctx)
	n.stop, n.done = cancel, make(chan struct{})
	go func() {
		defer close(n.done)
		n.err = n.Run(ctx, duties...)
	}()

	return n
}

func TestFailingDuty(t *testing.T) {
	t.Run("P03_a_duty_that_keeps_failing_makes_its_leader_hand_over", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var bad, good atomic.Bool
			bad.Store(true)
			a := c.member("a").campaign(failing(&bad))
			leader(t, time.Second, a)
			b := c.member("b").campaign(failing(&good))
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if s := a.Duties(); !a.leads() || len(s) != 1 || s[0].Name != "sync" || s[0].Failures != 4 ||
				s[0].InARow != 4 || s[0].LastError != "no luck" {
				t.Errorf("after four failures: leads %v, %+v", a.leads(), s)
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if !b.leads() || a.leads() {
				t.Fatal("after five failures it still leads, or nobody does")
			}

			lost := a.kinds(regent.EventLostLeadership)
			changes := a.kinds(regent.EventHealthChanged)
			if len(lost) != 1 || lost[0].Metadata["reason"] != "unhealthy" || len(changes) != 1 ||
				changes[0].Metadata["healthy"] != "false" {
				t.Errorf("lost %v, health %v", lost, changes)
			}

			// For a minute it stands back for everybody who is healthy.
			d := c.member("d").campaign(failing(&good))
			time.Sleep(10 * time.Second)
			b.quit()
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if a.leads() || !d.leads() {
				t.Errorf("the unhealthy one leads: %v, the healthy one: %v", a.leads(), d.leads())
			}

			bad.Store(false)
			time.Sleep(time.Minute)
			d.quit()
			leader(t, 10*time.Second, a)
			if changes := a.kinds(regent.EventHealthChanged); len(changes) != 2 ||
				changes[1].Metadata["healthy"] != "true" {
				t.Errorf("health %v", changes)
			}

			a.quit()
		})
	})

	t.Run("P03_an_unhealthy_member_leads_if_nobody_healthy_is_there", func(t *testing.T) {
		for name, cfg := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
			bubble(t, func(c *cluster) {
				var bad, good atomic.Bool
				bad.Store(true)
				a := c.member("a", config(cfg)).campaign(failing(&bad))
				leader(t, time.Second, a)
				time.Sleep(30 * time.Second)
				if changes := a.kinds(regent.EventHealthChanged); len(changes) != 1 {
					t.Fatalf("%s: health %v", name, changes)
				}

				// Its term ends, and nobody else is there.
				if err := a.StepDown(c.ctx, "seat"); err != nil {
					t.Fatal(err)
				}

				leader(t, cfg.ElectionInterval+3*cfg.HeartbeatInterval, a)

				// One that is healthy and registers takes over, as before.
				if name == "cluster" {
					b := c.member("b", config(cfg)).campaign(failing(&good))
					neverTwo(t, 10*time.Second, a, b)
					if !b.leads() {
						t.Error("the unhealthy one leads although a healthy one is there")
					}

					b.quit()
				}

				a.quit()
			})
		}
	})

	t.Run("P03_a_heartbeat_of_a_dead_leader_is_revoked_by_an_unhealthy_member_if_nobody_healthy_is_there",
		func(t *testing.T) {
			bubble(t, func(c *cluster) {
				var bad, good atomic.Bool
				bad.Store(true)
				a := c.member("a").campaign(failing(&bad))
				leader(t, time.Second, a)
				b := c.member("b").campaign(failing(&good))
				time.Sleep(20 * time.Second)
				if !b.leads() {
					t.Fatal("the healthy one does not lead")
				}
				if err := b.StepDown(c.ctx, "seat"); err != nil {
					t.Fatal(err)
				}
				if neverTwo(t, 10*time.Second, a, b); !b.leads() || len(a.kinds(regent.EventBecameLeader)) != 1 {
					t.Fatal("the unhealthy one has led while the healthy one stood back")
				}

				b.client.SetFaults(cut) // it can release nothing
				leader(t, 15*time.Second, a)
				b.client.SetFaults(memstore.Faults{})
				b.quit()
				a.quit()
			})
		})

	t.Run("P03_who_is_healthy_but_runs_for_another_election_does_not_keep_a_dead_leader_from_being_revoked",
		func(t *testing.T) {
			bubble(t, func(c *cluster) {
				var bad, good atomic.Bool
				bad.Store(true)
				a := c.member("a").campaign(failing(&bad))
				leader(t, time.Second, a)
				other := failing(&good)
				other.Election = "other"
				d := c.member("d").campaign(other)
				b := c.member("b").campaign(failing(&good))
				time.Sleep(20 * time.Second)
				if !b.leads() {
					t.Fatal("the healthy one does not lead")
				}

				b.client.SetFaults(cut)
				leader(t, 15*time.Second, a)
				b.client.SetFaults(memstore.Faults{})
				b.quit()
				d.quit()
				a.quit()
			})
		})

	t.Run("P03_failures_of_the_store_make_nobody_unhealthy", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").campaign(regent.Duty{Election: "seat", Name: "sync",
				Run: func(context.Context, regent.Term) error {
					return fmt.Errorf("read: %w: connection refused", regent.ErrStore)
				}})
			leader(t, time.Second, a)
			b := c.member("b").lead()
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if s := a.Duties(); !a.leads() || s[0].Failures < 10 || s[0].InARow != 0 {
				t.Errorf("leads %v, %+v", a.leads(), s)
			}
			if changes := a.kinds(regent.EventHealthChanged); len(changes) != 0 {
				t.Errorf("health %v", changes)
			}

			a.quit()
			b.quit()
		})
	})

	t.Run("P03_failures_of_several_terms_with_good_runs_between_them_are_not_in_a_row", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var bad atomic.Bool
			a := c.member("a").campaign(failing(&bad))
			for range 4 {
				leader(t, 10*time.Second, a)
				bad.Store(true)
				if err := a.StepDown(c.ctx, "seat"); err != nil {
					t.Fatal(err)
				}

				leader(t, 10*time.Second, a)
				time.Sleep(2 * time.Second) // it fails twice
				bad.Store(false)
				time.Sleep(9 * time.Second)
				if err := a.StepDown(c.ctx, "seat"); err != nil {
					t.Fatal(err)
				}
				if s := a.Duties(); s[0].InARow != 0 {
					t.Errorf("%+v", s)
				}
			}

			if changes := a.kinds(regent.EventHealthChanged); len(changes) != 0 || a.Duties()[0].Failures < 8 {
				t.Errorf("health %v, %+v", changes, a.Duties())
			}

			a.quit()
		})
	})

	t.Run("P03_the_last_candidate_goes_on_however_often_its_duty_fails", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var bad atomic.Bool
			bad.Store(true)
			a := c.member("a").campaign(failing(&bad))
			leader(t, time.Second, a)
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if s := a.Duties(); !a.leads() || s[0].InARow < 10 {
				t.Fatalf("leads %v, %+v", a.leads(), s)
			}

			// Half a minute of work, and it is well.
			bad.Store(false)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if s := a.Duties(); !s[0].Running || s[0].InARow != 0 {
				t.Errorf("%+v", s)
			}
			if changes := a.kinds(regent.EventHealthChanged); len(changes) != 2 ||
				changes[1].Metadata["healthy"] != "true" {
				t.Errorf("health %v", changes)
			}

			if s := a.Duties(); s[0].Failures < 10 || s[0].LastError == "" {
				t.Errorf("what happened is forgotten: %+v", s)
			}

			a.quit()
			if len(a.Duties()) != 0 {
				t.Error("duties are left")
			}
		})
	})

	t.Run("E01_a_term_that_learns_of_a_higher_epoch_ends_and_the_next_goes_beyond_it", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			reported := false
			ended := make(chan error, 1)
			a.campaign(regent.Duty{Election: "seat", Run: func(ctx context.Context, t regent.Term) error {
				c.note("epoch %d", t.Epoch)
				if !reported {
					reported = true
					t.Fenced(41)
					<-ctx.Done()
					ended <- context.Cause(ctx)
				}

				<-ctx.Done()
				return nil
			}})
			if err := <-ended; !errors.Is(err, regent.ErrFenced) {
				t.Errorf("ended for %v", err)
			}

			time.Sleep(time.Second)
			leader(t, 10*time.Second, a)
			if c.noted("epoch 1") != 1 || c.noted("epoch 42") != 1 {
				t.Errorf("got %q", c.log)
			}
			if lost := a.kinds(regent.EventLostLeadership); lost[0].Metadata["reason"] != "fenced" {
				t.Errorf("got %v", lost)
			}

			a.quit()
		})
	})
}
