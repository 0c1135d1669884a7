package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

func TestMonitor(t *testing.T) {
	t.Run("a_quiet_cluster_costs_one_listing_and_one_probe_each_per_interval", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.join("a", "b", "c")
			m, stop := w.run()
			time.Sleep(29 * time.Second) // the second look at members that are new to the term
			if n := w.lists.Load(); n != 2 {
				t.Errorf("listed %d times at first", n)
			}
			w.lists.Store(0)
			w.probes.Store(0)
			time.Sleep(10 * time.Minute)
			if l, p := w.lists.Load(), w.probes.Load(); l != 20 || p != 60 {
				t.Errorf("listed %d times and probed %d times in 10 minutes", l, p)
			}
			if c := m.Snapshot(); !c.Known || c.Status != Healthy || c.Counts.Healthy != 3 || c.Leader != "a" || c.Epoch != 7 {
				t.Errorf("got %+v", c)
			}
			w.wantLog()
			stop()
		})
	})

	t.Run("C21_a_single_node_is_healthy_at_once", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.join("a")
			m, stop := w.run()
			if c := m.Snapshot(); c.Status != Healthy || len(c.Reasons) != 0 || c.member("a").Status != Healthy {
				t.Errorf("got %+v", c)
			}
			stop()
		})
	})

	t.Run("a_member_that_dies_is_suspected_by_the_next_check_and_unreachable_a_lease_later", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.join("a", "b", "c", "d")
			m, stop := w.run()
			time.Sleep(40 * time.Second)
			w.die("c")
			if took := w.await(m, "c", Degraded, 30*time.Second); took < 20*time.Second {
				t.Errorf("suspected after %v", took)
			}
			if took := w.await(m, "c", Unreachable, 10*time.Second); took > lease {
				t.Errorf("took %v more", took)
			}
			if c := m.Snapshot(); c.Status != Degraded || !strings.HasPrefix(c.Reasons[0], "1 of 4 members is not healthy: c (unreachable: no heartbeat for 6") {
				t.Errorf("got %s %q", c.Status, c.Reasons)
			}
			w.wantLog("node_down c degraded>unreachable") // and no partition
			w.await(m, "c", Gone, 11*time.Minute)
			if c := m.Snapshot(); c.Status != Healthy || !strings.HasPrefix(c.member("c").Why, "no heartbeat for 10m") {
				t.Errorf("got %s %q %+v", c.Status, c.Reasons, c.member("c"))
			}
			w.wantLog() // it was down already
			time.Sleep(61 * time.Minute)
			if c := m.Snapshot(); c.Counts.Members != 3 {
				t.Errorf("still lists %+v", c.Members)
			}
			stop()
		})
	})

	t.Run("a_hint_makes_it_look_at_once_and_a_storm_of_them_once_a_second", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.join("a", "b", "c")
			m, stop := w.run()
			time.Sleep(40 * time.Second)
			w.leave("b")
			w.changed <- driver.Record{}
			if took := w.await(m, "b", Gone, time.Second); took > 50*time.Millisecond {
				t.Errorf("took %v", took)
			}
			w.wantLog("node_down b healthy>gone")
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

	t.Run("hints_that_have_ended_are_no_hints", func(t *testing.T) {
		bubble(t, func(w *world) {
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

	t.Run("a_member_that_is_cut_off_from_this_node_alone_is_partitioned_and_comes_back", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.join("a", "b", "c", "d", "e")
			m, stop := w.run()
			time.Sleep(40 * time.Second)
			w.change("b", func(f *fake) { f.cut = true })
			w.await(m, "b", Partitioned, 40*time.Second)
			if c := m.Snapshot(); c.Status != Degraded || c.Reasons[0] != "1 of 5 members is not healthy: b (partitioned: its heartbeat goes on, but it cannot be reached at b:1: connection refused)" {
				t.Errorf("got %s %q", c.Status, c.Reasons)
			}
			w.wantLog("partition b degraded>partitioned")
			time.Sleep(5 * time.Minute)
			w.wantLog()
			w.change("b", func(f *fake) { f.cut = false })
			w.await(m, "b", Healthy, 40*time.Second)
			w.wantLog("node_up b partitioned>healthy")
			w.change("b", func(f *fake) { f.cut = true })
			w.await(m, "b", Partitioned, 40*time.Second)
			w.die("b")
			w.await(m, "b", Unreachable, 40*time.Second)
			w.wantLog("partition b degraded>partitioned", "node_down b partitioned>unreachable")
			stop()
		})
	})

	t.Run("one_lost_probe_is_checked_again_a_second_later_and_changes_nothing", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.join("a", "b")
			probe := w.opts.Probe
			var lost atomic.Bool
			w.opts.Probe = func(ctx ctx, v regent.MemberView) (Report, error) {
				if v.ID == "b" && time.Since(w.start) > 40*time.Second && !lost.Swap(true) {
					return Report{}, errors.New("lost")
				}
				return probe(ctx, v)
			}
			m, stop := w.run()
			time.Sleep(40 * time.Second)
			for !lost.Load() {
				time.Sleep(10 * time.Millisecond)
			}
			before := w.lists.Load()
			time.Sleep(1100 * time.Millisecond)
			if n := w.lists.Load() - before; n != 1 {
				t.Errorf("listed %d times", n)
			}
			for range 100 {
				if s := m.Snapshot().member("b").Status; s != Healthy {
					t.Fatalf("b is %s", s)
				}
				time.Sleep(time.Second)
			}
			w.wantLog()
			stop()
		})
	})

	t.Run("a_slow_member_is_degraded_by_two_checks_and_healthy_by_two", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.join("a", "b")
			m, stop := w.run()
			time.Sleep(40 * time.Second)
			w.change("b", func(f *fake) { f.slow = 600 * time.Millisecond })
			w.await(m, "b", Degraded, 35*time.Second)
			if b := m.Snapshot().member("b"); b.LatencyMs != 600 || b.Why != "it took 600ms to answer, more than 500ms" || b.LastSeenMs < 0 || b.LastSeenMs > 1000 {
				t.Errorf("got %+v", b)
			}
			w.change("b", func(f *fake) { f.slow = 0 })
			w.await(m, "b", Healthy, 35*time.Second)
			w.wantLog() // up is up
			stop()
		})
	})

	t.Run("a_failover_tells_only_of_those_who_did_not_live_through_it", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.join("a", "b", "c", "d", "e", "old", "z")
			w.leave("old")
			w.leave("z")
			w.die("d")
			w.change("e", func(f *fake) { f.cut = true })
			w.opts.Past = func() []driver.Past {
				return []driver.Past{{Epoch: 5, Holder: "old", Reason: "expired"}, {Epoch: 6, Holder: "z", Reason: "expired"}, {Epoch: 7, Holder: "a"}}
			}
			time.Sleep(time.Second)
			m, stop := w.run()
			if c := m.Snapshot(); c.member("d").Status != Unknown || c.member("e").Status != Unknown || c.member("b").Status != Healthy || c.Status != Healthy {
				t.Errorf("at once: %+v", c)
			}
			time.Sleep(15 * time.Second)
			w.wantLog("node_down z unknown>gone", "node_down d unknown>unreachable", "partition e degraded>partitioned")
			c := m.Snapshot()
			if c.member("old").ID != "" || c.member("z").Why != "it led the term before, which ended: expired" {
				t.Errorf("lists %+v", c.Members)
			}
			w.join("f")
			w.join("z")
			w.changed <- driver.Record{}
			time.Sleep(time.Second)
			w.wantLog("node_up f unknown>healthy", "node_up z gone>healthy")
			stop()
		})
	})

	t.Run("a_leader_that_died_is_missed_by_its_successor_if_that_is_alone", func(t *testing.T) {
		for reason, want := range map[string]Status{"expired": Critical, "died": Critical, "shutdown": Degraded, "handoff": Degraded} {
			bubble(t, func(w *world) {
				w.join("a", "b")
				w.leave("b")
				w.opts.Past = func() []driver.Past { return []driver.Past{{Epoch: 6, Holder: "b", Reason: reason}} }
				m, stop := w.run()
				if c := m.Snapshot(); c.Status != want || len(c.Reasons) != 1 || !strings.Contains(c.Reasons[0], "b (gone: it led the term before, which ended: "+reason) {
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

	t.Run("a_listing_that_fails_says_nothing_of_the_members", func(t *testing.T) {
		bubble(t, func(w *world) {
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
			if c.Status != Degraded || !slices.Equal(c.Reasons, []string{"the members cannot be listed: out of order"}) || c.Counts.Healthy != 2 {
				t.Errorf("got %+v", c)
			}
			w.mu.Lock()
			w.fail = nil
			w.mu.Unlock()
			time.Sleep(30 * time.Second)
			if c := m.Snapshot(); c.Status != Healthy {
				t.Errorf("got %+v", c)
			}
			w.wantLog()
			stop()
		})
	})

	t.Run("a_register_that_vanishes_is_gone_and_may_come_back", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.join("a", "b")
			m, stop := w.run()
			time.Sleep(40 * time.Second)
			w.mu.Lock()
			lost := w.fakes[1]
			w.fakes = w.fakes[:1]
			w.mu.Unlock()
			w.await(m, "b", Gone, 31*time.Second)
			if c := m.Snapshot(); c.Status != Critical || !strings.Contains(c.member("b").Why, "vanished") {
				t.Errorf("got %+v", c)
			}
			w.mu.Lock()
			w.fakes = append(w.fakes, lost)
			w.mu.Unlock()
			w.await(m, "b", Healthy, 31*time.Second)
			w.wantLog("node_down b healthy>gone", "node_up b gone>healthy")
			stop()
		})
	})

	t.Run("checks_are_told_with_counts_and_reasons", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.join("a", "b")
			w.change("b", func(f *fake) { f.slow = 700 * time.Millisecond })
			_, stop := w.run()
			time.Sleep(5 * time.Second)
			w.mu.Lock()
			e := w.events[len(w.events)-1]
			w.mu.Unlock()
			if e.Kind != EventHealthCheck || e.Node != "a" || e.Election != "seat" || e.Epoch != 7 || e.Time.IsZero() ||
				e.Measurements["members"] != 2 || e.Measurements["healthy"] != 1 || e.Measurements["degraded"] != 1 || e.Measurements["duration"] != 0.7 ||
				e.Metadata["status"] != "degraded" || !strings.Contains(e.Metadata["reasons"], "b (degraded: it took 700ms") {
				t.Errorf("got %+v", e)
			}
			stop()
		})
	})

	t.Run("no_more_than_sixteen_probes_run_at_once_and_none_for_longer_than_its_time", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.join("a")
			for i := range 99 {
				w.join(fmt.Sprintf("n%02d", i))
				w.change(fmt.Sprintf("n%02d", i), func(f *fake) { f.slow = time.Hour })
			}
			m, stop := w.run()
			time.Sleep(15 * time.Second)
			if n := w.most.Load(); n != 16 {
				t.Errorf("%d at once", n)
			}
			if c := m.Snapshot(); !c.Known || c.CheckedAt.Sub(w.start) != 14*time.Second { // 99 hang for 2 s, 15 or 16 at a time
				t.Errorf("checked after %v", c.CheckedAt.Sub(w.start))
			}
			stop()
		})
	})

	t.Run("the_end_of_the_term_is_no_fault_of_any_member_and_leaves_nothing_running", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.join("a", "b", "c")
			m, stop := w.run()
			time.Sleep(40 * time.Second)
			w.log()
			w.change("b", func(f *fake) { f.slow = time.Second })
			for w.running.Load() == 0 {
				time.Sleep(100 * time.Millisecond)
			}
			began := time.Now()
			stop()
			if time.Since(began) != 0 || w.running.Load() != 0 {
				t.Errorf("it took %v to stop, %d probes run", time.Since(began), w.running.Load())
			}
			w.wantLog()
			c := m.Snapshot()
			if c.Known || c.Status != Unknown || len(c.Reasons) != 1 || !strings.Contains(c.Reasons[0], "does not lead any more") || c.Counts.Healthy != 3 {
				t.Errorf("got %+v", c)
			}
			lists := w.lists.Load()
			time.Sleep(time.Hour)
			if w.lists.Load() != lists {
				t.Error("it still looks")
			}
			// The next term begins anew.
			w.change("b", func(f *fake) { f.slow = 0 })
			stop = w.runTerm(m, 9)
			if c := m.Snapshot(); !c.Known || c.Epoch != 9 || c.Status != Healthy {
				t.Errorf("got %+v", c)
			}
			stop()
		})
	})

	t.Run("a_probe_that_the_end_of_the_term_cuts_short_tells_nothing", func(t *testing.T) {
		partitions := 0
		for after := time.Duration(0); after < 45*time.Second; after += 300 * time.Millisecond {
			bubble(t, func(w *world) {
				w.join("a", "b")
				_, stop := w.run()
				time.Sleep(40 * time.Second)
				w.change("b", func(f *fake) { f.slow = time.Hour }) // it takes connections, and never answers
				time.Sleep(after)
				synctest.Wait()
				partitions += len(w.log())
				stop()
				w.wantLog()
			})
		}
		if partitions == 0 {
			t.Error("the time was too short to tell anything")
		}
	})

	t.Run("a_snapshot_is_safe_from_anywhere_and_its_readers_own_it", func(t *testing.T) {
		bubble(t, func(w *world) {
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
		m, err := New(Options{Self: "a", Members: (&world{}).list})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(m.Snapshot())
		want := `{"known":false,"status":"unknown","reasons":["this node has not led, so it has observed nothing"],"members":[],` +
			`"counts":{"members":0,"healthy":0,"degraded":0,"partitioned":0,"unreachable":0,"gone":0,"unknown":0}}`
		if err != nil || string(b) != want {
			t.Errorf("got %s, %v", b, err)
		}
	})
}
