package regent_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

func TestEvents(t *testing.T) {
	t.Run("C14_became_and_lost_carry_node_epoch_and_time", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			b := c.member("b").lead()
			time.Sleep(time.Second)
			a.quit()
			leader(t, time.Second, b)
			time.Sleep(time.Second)

			became := a.kinds(regent.EventBecameLeader)
			if len(became) != 1 || became[0].Node != "a" || became[0].Epoch != 1 || became[0].Election != "seat" ||
				became[0].Measurements["time"] == 0 {
				t.Errorf("became: %+v", became)
			}
			lost := a.kinds(regent.EventLostLeadership)
			if len(lost) != 1 || lost[0].Node != "a" || lost[0].Epoch != 1 ||
				lost[0].Metadata["reason"] != "shutdown" || lost[0].Measurements["time"] == 0 {
				t.Errorf("lost: %+v", lost)
			}
			b.quit()
			a.quit()
		})
	})

	t.Run("C16_a_standby_that_sees_another_leader_says_who_was_and_who_is", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			b := c.member("b").lead()
			time.Sleep(time.Second)
			changed := b.kinds(regent.EventLeaderChanged)
			if len(changed) != 1 || changed[0].Epoch != 1 || changed[0].Metadata["new_leader"] != "a" ||
				changed[0].Metadata["previous_leader"] != "" {
				t.Errorf("b saw %+v", changed)
			}
			a.quit()
			leader(t, time.Second, b)
			a.lead()
			time.Sleep(time.Second)
			if got := a.kinds(regent.EventLeaderChanged); len(got) != 1 || got[0].Epoch != 2 ||
				got[0].Metadata["new_leader"] != "b" || got[0].Metadata["previous_leader"] != "a" {
				t.Errorf("a saw %+v", got)
			}
			b.quit()
			a.quit()
		})
	})

	t.Run("C15_every_way_to_lose_a_seat_has_its_reason", func(t *testing.T) {
		for _, tt := range []struct {
			reason string
			lose   func(*cluster, *node)
		}{
			{"shutdown", func(_ *cluster, a *node) { a.stop() }},
			{"handoff", func(c *cluster, a *node) { check(t, a.HandOff(c.ctx, "seat", "b")) }},
			{"stepped down", func(c *cluster, a *node) { check(t, a.StepDown(c.ctx, "seat")) }},
			{"paused", func(c *cluster, a *node) {
				check(t, a.Pause(c.ctx, "seat"))
				time.Sleep(2 * time.Second)
				check(t, a.StepDown(c.ctx, "seat"))
			}},
			{"partition", func(_ *cluster, a *node) { a.client.SetFaults(cut) }},
			{"lost lease", func(c *cluster, _ *node) { c.store.Flush() }},
		} {
			t.Run(strings.ReplaceAll(tt.reason, " ", "_"), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					a := c.member("a").lead()
					leader(t, time.Second, a)
					b := c.member("b").lead()
					time.Sleep(3 * time.Second)
					tt.lose(c, a)
					time.Sleep(20 * time.Second)
					if lost := a.kinds(regent.EventLostLeadership); len(lost) != 1 ||
						lost[0].Metadata["reason"] != tt.reason || lost[0].Epoch != 1 {
						t.Errorf("got %+v", lost)
					}
					a.quit()
					b.quit()
				})
			})
		}
	})

	t.Run("C15_whoever_takes_over_from_a_leader_that_cannot_speak_says_so_for_it", func(t *testing.T) {
		for _, profile := range []regent.Config{regent.Cluster(), regent.Lock()} {
			bubble(t, func(c *cluster) {
				a := c.member("a", config(profile)).lead()
				leader(t, time.Second, a)
				b, x := c.member("b", config(profile)).lead(), c.member("x", config(profile)).lead()
				time.Sleep(3 * time.Second)
				a.client.SetFaults(cut) // its host has died, for all that the others know
				next, _ := leader(t, 2*time.Minute, b, x)
				other := map[*node]*node{b: x, x: b}[next]
				time.Sleep(10 * time.Second)

				got := next.kinds(regent.EventLostLeadership)
				if len(got) != 1 || got[0].Node != "a" || got[0].Epoch != 1 || got[0].Metadata["reason"] != "expired" ||
					got[0].Election != "seat" || got[0].Measurements["time"] == 0 {
					t.Errorf("the successor says %+v", got)
				}
				if became := next.kinds(regent.EventBecameLeader); len(became) != 1 || len(got) == 1 &&
					became[0].Seq < got[0].Seq {
					t.Errorf("it says %+v before %+v", became, got)
				}
				if got := other.kinds(regent.EventLostLeadership); len(got) != 0 {
					t.Errorf("the other one says %+v", got)
				}

				next.quit()
				other.quit()
				a.quit()
			})
		}
	})

	t.Run("C15_a_leader_that_gave_up_its_term_is_not_reported_twice", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			a.client.SetFaults(cut)
			for a.leads() {
				time.Sleep(time.Millisecond)
			}

			a.client.SetFaults(memstore.Faults{})
			leader(t, time.Minute, a)
			if got := a.kinds(regent.EventLostLeadership); len(got) != 1 || got[0].Metadata["reason"] != "partition" {
				t.Errorf("it says %+v", got)
			}

			a.quit()
		})
	})

	t.Run("a_slow_observer_loses_events_and_the_loss_is_counted", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			block := make(chan struct{})
			duties := make([]regent.Duty, 5000)
			for i := range duties {
				duties[i].Election = "s" + string(rune('0'+i%10)) + time.Duration(i).String()
			}

			a := c.member("a", func(m *regent.Member) { m.OnEvent = func(regent.Event) { <-block } })
			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			go func() { defer close(done); _ = a.Run(ctx, duties...) }()
			time.Sleep(10 * time.Second)
			if _, ok := a.Leads(duties[4999].Election); !ok {
				t.Error("the election waited for its observer")
			}
			if lost := a.Stats().LostEvents; lost < 900 {
				t.Errorf("%d events counted as lost", lost)
			}

			close(block)
			cancel()
			<-done
		})
	})

	t.Run("observers_that_panic_are_counted_reported_and_called_again", func(t *testing.T) {
		for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
			bubble(t, func(c *cluster) {
				var events, lifelines atomic.Uint64
				var kinds []regent.EventKind
				a := c.member("a", config(profile), func(m *regent.Member) {
					m.OnEvent = func(e regent.Event) {
						events.Add(1)
						kinds = append(kinds, e.Kind)
						panic("observer of events")
					}
					m.OnLifeline = func(regent.Lifeline) { lifelines.Add(1); panic("observer of heartbeats") }
				}).lead()
				leader(t, time.Second, a)
				term, _ := a.Leads("seat")
				if time.Sleep(time.Minute); !term.Valid() {
					t.Errorf("%s: it lost its term", name)
				}

				a.quit()
				synctest.Wait()
				if got := a.Stats().ObserverPanics; got != events.Load()+lifelines.Load() || lifelines.Load() < 5 {
					t.Errorf("%s: %d panics counted, of %d events and %d heartbeats", name, got, events.Load(),
						lifelines.Load())
				}

				if !slices.Contains(kinds, regent.EventObserverPanicked) ||
					!slices.Contains(kinds, regent.EventLostLeadership) {
					t.Errorf("%s: saw %q", name, kinds)
				}
			})
		}
	})

	t.Run("log_lines_have_constant_messages", func(t *testing.T) {
		var b bytes.Buffer
		log := regent.LogEvents(slog.New(slog.NewTextHandler(&b, nil)))
		log(regent.Event{Kind: regent.EventBecameLeader, Node: "a", Election: "seat", Epoch: 7})
		log(regent.Event{Kind: regent.EventLostLeadership, Node: "a", Election: "seat", Epoch: 7,
			Metadata: map[string]string{"reason": "shutdown"}})
		log(regent.Event{Kind: regent.EventStoreRegressed, Node: "a", Election: "seat", Epoch: 7})
		for _, want := range []string{`msg="became leader"`, `msg="lost leadership"`, "reason=shutdown",
			"node=a election=seat epoch=7", "level=ERROR"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%q is not in\n%s", want, b.String())
			}
		}
	})
}
