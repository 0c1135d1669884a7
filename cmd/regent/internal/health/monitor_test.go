package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

func TestMonitorChecks(t *testing.T) {
	t.Run("a_quiet_cluster_costs_one_listing_and_one_probe_each_per_interval", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a", "b", "c")
			m, stop := w.run()
			time.Sleep(29 * time.Second) // members that are new to the term are checked twice
			if n := w.lists.Load(); n != 2 {
				t.Errorf("listed %d times at first", n)
			}

			w.lists.Store(0)
			w.probes.Store(0)
			time.Sleep(10 * time.Minute)
			if l, p := w.lists.Load(), w.probes.Load(); l != 20 || p != 60 {
				t.Errorf("listed %d times and probed %d times in 10 minutes", l, p)
			}

			c := m.Snapshot()
			if !c.Known || c.Status != Healthy || c.Counts.Healthy != 3 || c.Leader != "a" || c.Epoch != 7 {
				t.Errorf("got %+v", c)
			}
			w.wantEvents()
			stop()
		})
	})

	t.Run("a_notification_causes_a_check_at_once_and_many_of_them_one_a_second", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a", "b", "c")
			m, stop := w.run()
			time.Sleep(40 * time.Second)
			w.leave("b")

			w.changed <- driver.Record{}
			if took := w.await(m, "b", Gone, time.Second); took > 50*time.Millisecond {
				t.Errorf("took %v", took)
			}
			w.wantEvents("node_down b healthy>gone")
			time.Sleep(2 * time.Second)

			before := w.lists.Load()
			for range 1000 {
				select {
				case w.changed <- driver.Record{}:
				default:
				}
				time.Sleep(10 * time.Millisecond)
			}
			if n := w.lists.Load() - before; n < 9 || n > 11 {
				t.Errorf("listed %d times in 10 s", n)
			}
			stop()
		})
	})

	t.Run("a_closed_channel_of_notifications_is_ignored", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a")
			close(w.changed)
			_, stop := w.run()
			time.Sleep(29 * time.Second)
			if n := w.lists.Load(); n != 2 {
				t.Errorf("listed %d times", n)
			}
			stop()
		})
	})

	t.Run("a_failed_listing_changes_no_member", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a", "b")
			m, stop := w.run()
			time.Sleep(40 * time.Second)

			w.mu.Lock()
			w.fail = errors.New("out of order")
			w.mu.Unlock()

			before := w.lists.Load()
			time.Sleep(5 * time.Minute)
			if n := w.lists.Load() - before; n < 20 || n > 40 { // three quick ones, then an interval
				t.Errorf("listed %d times in 5 minutes", n)
			}
			c := m.Snapshot()
			want := []string{"the members cannot be listed: list members: store failed: out of order"}
			if c.Status != Degraded || !slices.Equal(c.Reasons, want) || c.Counts.Healthy != 2 {
				t.Errorf("got %+v", c)
			}

			w.mu.Lock()
			w.fail = nil
			w.mu.Unlock()
			time.Sleep(30 * time.Second)
			if c := m.Snapshot(); c.Status != Healthy {
				t.Errorf("got %+v", c)
			}
			w.wantEvents()
			stop()
		})
	})

	t.Run("a_check_emits_an_event_with_counts_and_reasons", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a", "b")
			w.change("b", func(f *fakeMember) { f.slow = 700 * time.Millisecond })
			_, stop := w.run()
			time.Sleep(5 * time.Second)
			w.mu.Lock()
			e := w.events[len(w.events)-1]
			w.mu.Unlock()

			if e.Kind != EventHealthCheck || e.Node != "a" || e.Election != "seat" || e.Epoch != 7 || e.Time.IsZero() {
				t.Errorf("got %+v", e)
			}
			for name, want := range map[string]float64{"members": 2, "healthy": 1, "degraded": 1, "durationMs": 700} {
				if got := e.Measurements[name]; got != want {
					t.Errorf("%s is %v, want %v", name, got, want)
				}
			}
			reasons := e.Metadata["reasons"]
			if e.Metadata["status"] != "degraded" || !strings.Contains(reasons, "b (degraded: it took 700ms") {
				t.Errorf("got %+v", e)
			}
			stop()
		})
	})

	t.Run("no_more_than_sixteen_probes_run_at_once_and_none_for_longer_than_its_timeout", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a")
			for i := range 99 {
				w.join(fmt.Sprintf("n%02d", i))
				w.change(fmt.Sprintf("n%02d", i), func(f *fakeMember) { f.slow = time.Hour })
			}
			m, stop := w.run()
			time.Sleep(15 * time.Second)
			if n := w.most.Load(); n != 16 {
				t.Errorf("%d at once", n)
			}
			c := m.Snapshot()
			took := c.CheckedAt.Sub(w.start)
			if !c.Known || took != 14*time.Second { // 99 time out after 2 s, 15 or 16 at a time
				t.Errorf("checked after %v", took)
			}
			stop()
		})
	})
}

func TestMonitorTerms(t *testing.T) {
	t.Run("the_end_of_the_term_changes_no_member_and_leaves_nothing_running", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a", "b", "c")
			m, stop := w.run()
			time.Sleep(40 * time.Second)
			w.memberEvents()
			w.change("b", func(f *fakeMember) { f.slow = time.Second })
			for w.running.Load() == 0 {
				time.Sleep(100 * time.Millisecond)
			}

			began := time.Now()
			stop()
			if time.Since(began) != 0 || w.running.Load() != 0 {
				t.Errorf("it took %v to stop, %d probes run", time.Since(began), w.running.Load())
			}
			w.wantEvents()
			c := m.Snapshot()
			if c.Known || c.Status != Unknown || c.Counts.Healthy != 3 {
				t.Errorf("got %+v", c)
			}
			if len(c.Reasons) != 1 || !strings.Contains(c.Reasons[0], "no longer leads") {
				t.Errorf("got %q", c.Reasons)
			}

			lists := w.lists.Load()
			time.Sleep(time.Hour)
			if w.lists.Load() != lists {
				t.Error("it still lists")
			}

			// The next term begins without memory.
			w.change("b", func(f *fakeMember) { f.slow = 0 })
			stop = w.runTerm(m, 9)
			if c := m.Snapshot(); !c.Known || c.Epoch != 9 || c.Status != Healthy {
				t.Errorf("got %+v", c)
			}
			stop()
		})
	})

	t.Run("a_probe_that_the_end_of_the_term_interrupts_emits_nothing", func(t *testing.T) {
		partitions := 0
		for after := time.Duration(0); after < 45*time.Second; after += 300 * time.Millisecond {
			runVirtual(t, func(w *virtualCluster) {
				w.join("a", "b")
				_, stop := w.run()
				time.Sleep(40 * time.Second)
				w.change("b", func(f *fakeMember) { f.slow = time.Hour }) // it accepts connections, and never answers
				time.Sleep(after)
				synctest.Wait()
				partitions += len(w.memberEvents())
				stop()
				w.wantEvents()
			})
		}
		if partitions == 0 {
			t.Error("the time was too short for any event")
		}
	})

	t.Run("a_failover_emits_events_only_for_members_that_did_not_survive_it", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a", "b", "c", "d", "e", "old", "z")
			w.leave("old")
			w.leave("z")
			w.die("d")
			w.change("e", func(f *fakeMember) { f.cut = true })
			w.opts.Past = func() []driver.Past {
				return []driver.Past{
					{Epoch: 5, Holder: "old", Reason: "expired"},
					{Epoch: 6, Holder: "z", Reason: "expired"},
					{Epoch: 7, Holder: "a"},
				}
			}
			time.Sleep(time.Second)
			m, stop := w.run()
			for id, want := range map[string]Status{"d": Unknown, "e": Unknown, "b": Healthy} {
				if got := m.Snapshot().member(id); got.Status != want {
					t.Errorf("at once: %+v, want %s", got, want)
				}
			}
			if c := m.Snapshot(); c.Status != Healthy {
				t.Errorf("at once: %+v", c)
			}

			time.Sleep(15 * time.Second)
			w.wantEvents("node_down z unknown>gone", "node_down d unknown>unreachable",
				"partition e degraded>partitioned")
			c := m.Snapshot()
			if c.member("old").ID != "" || c.member("z").Why != "it led the term before, which ended: expired" {
				t.Errorf("lists %+v", c.Members)
			}

			w.join("f", "z")
			w.changed <- driver.Record{}
			time.Sleep(time.Second)
			w.wantEvents("node_up f unknown>healthy", "node_up z gone>healthy")
			stop()
		})
	})

	t.Run("a_leader_that_died_leaves_its_single_successor_critical", func(t *testing.T) {
		for reason, want := range map[string]Status{
			"expired":  Critical,
			"died":     Critical,
			"shutdown": Degraded,
			"handoff":  Degraded,
		} {
			runVirtual(t, func(w *virtualCluster) {
				w.join("a", "b")
				w.leave("b")
				w.opts.Past = func() []driver.Past { return []driver.Past{{Epoch: 6, Holder: "b", Reason: reason}} }
				m, stop := w.run()
				c := m.Snapshot()
				text := "b (gone: it led the term before, which ended: " + reason
				if reason == "died" {
					text = "b (gone: its process died"
				}
				if c.Status != want || len(c.Reasons) != 1 || !strings.Contains(c.Reasons[0], text) {
					t.Errorf("%s: %s %q", reason, c.Status, c.Reasons)
				}

				time.Sleep(61 * time.Minute)
				if c := m.Snapshot(); c.Status != Healthy || c.Counts.Members != 1 {
					t.Errorf("%s, after an hour: %s %q", reason, c.Status, c.Reasons)
				}
				stop()
			})
		}
	})
}

func TestSnapshot(t *testing.T) {
	t.Run("a_snapshot_is_safe_for_concurrent_use_and_belongs_to_its_reader", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a", "b", "c")
			m, stop := w.run()
			var readers sync.WaitGroup
			for range 4 {
				readers.Go(func() {
					for range 100 {
						c := m.Snapshot()
						for i := range c.Members {
							c.Members[i].Status = "mine"
						}
						time.Sleep(time.Second)
					}
				})
			}

			readers.Wait()
			if c := m.Snapshot(); c.member("b").Status != Healthy {
				t.Errorf("got %+v", c)
			}
			stop()
		})
	})

	t.Run("a_cluster_in_JSON_has_lists_even_if_empty", func(t *testing.T) {
		m, err := New(Options{Self: "a", NewRoster: (&regent.Member{}).NewRoster})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(m.Snapshot())
		want := `{"known":false,"status":"unknown",` +
			`"reasons":["this node has not led, so it has checked nothing"],"checkedAgoMs":0,"members":[],` +
			`"counts":{"members":0,"healthy":0,"degraded":0,"partitioned":0,"unreachable":0,"gone":0,"unknown":0}}`
		if err != nil || string(b) != want {
			t.Errorf("got %s, %v", b, err)
		}
	})
}
