package health

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
)

func TestMonitorStatuses(t *testing.T) {
	t.Run("C21_a_single_node_is_healthy_at_once", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a")
			m, stop := w.run()
			if c := m.Snapshot(); c.Status != Healthy || len(c.Reasons) != 0 || c.member("a").Status != Healthy {
				t.Errorf("got %+v", c)
			}
			stop()
		})
	})

	t.Run("a_member_that_dies_is_degraded_by_the_next_check_and_unreachable_a_lease_later", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a", "b", "c", "d")
			m, stop := w.run()
			time.Sleep(40 * time.Second)
			w.die("c")
			if took := w.await(m, "c", Degraded, 30*time.Second); took < 20*time.Second {
				t.Errorf("degraded after %v", took)
			}
			if took := w.await(m, "c", Unreachable, 10*time.Second); took > lease {
				t.Errorf("took %v more", took)
			}
			c := m.Snapshot()
			reason := "1 of 4 members is not healthy: c (unreachable: no heartbeat for 6"
			if c.Status != Degraded || !strings.HasPrefix(c.Reasons[0], reason) {
				t.Errorf("got %s %q", c.Status, c.Reasons)
			}
			w.wantEvents("node_down c degraded>unreachable") // and no partition

			w.await(m, "c", Gone, 11*time.Minute)
			if c := m.Snapshot(); c.Status != Healthy || !strings.HasPrefix(c.member("c").Why, "no heartbeat for 10m") {
				t.Errorf("got %s %q %+v", c.Status, c.Reasons, c.member("c"))
			}
			w.wantEvents() // it was down already

			time.Sleep(61 * time.Minute)
			if c := m.Snapshot(); c.Counts.Members != 3 {
				t.Errorf("still lists %+v", c.Members)
			}
			stop()
		})
	})

	t.Run("a_member_that_only_this_node_cannot_reach_is_partitioned_and_comes_back", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a", "b", "c", "d", "e")
			m, stop := w.run()
			time.Sleep(40 * time.Second)
			w.change("b", func(f *fakeMember) { f.cut = true })
			w.await(m, "b", Partitioned, 40*time.Second)
			c := m.Snapshot()
			reason := "1 of 5 members is not healthy: b (partitioned: its heartbeat continues, " +
				"but it cannot be reached at b:1: connection refused)"
			if c.Status != Degraded || c.Reasons[0] != reason {
				t.Errorf("got %s %q", c.Status, c.Reasons)
			}
			w.wantEvents("partition b degraded>partitioned")
			time.Sleep(5 * time.Minute)
			w.wantEvents()

			w.change("b", func(f *fakeMember) { f.cut = false })
			w.await(m, "b", Healthy, 40*time.Second)
			w.wantEvents("node_up b partitioned>healthy")

			w.change("b", func(f *fakeMember) { f.cut = true })
			w.await(m, "b", Partitioned, 40*time.Second)
			w.die("b")
			w.await(m, "b", Unreachable, 40*time.Second)
			w.wantEvents("partition b degraded>partitioned", "node_down b partitioned>unreachable")
			stop()
		})
	})

	t.Run("one_lost_probe_is_checked_again_a_second_later_and_changes_nothing", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a", "b")
			probe := w.opts.Probe
			var lost atomic.Bool
			w.opts.Probe = func(ctx context.Context, v regent.MemberView) (Report, error) {
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
			w.wantEvents()
			stop()
		})
	})

	t.Run("the_age_of_a_heartbeat_grows_between_two_checks", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a", "b")
			m, stop := w.run()
			time.Sleep(40 * time.Second)
			lists := w.lists.Load()
			before := m.Snapshot()
			time.Sleep(3 * time.Second)
			after := m.Snapshot()
			if w.lists.Load() != lists {
				t.Fatal("there was a check in between")
			}
			if grown := after.member("b").LastSeenMs - before.member("b").LastSeenMs; grown != 3000 {
				t.Errorf("after 3 s the heartbeat is %d ms older", grown)
			}
			if grown := after.CheckedAgoMs - before.CheckedAgoMs; grown != 3000 {
				t.Errorf("after 3 s the check is %d ms older", grown)
			}
			if before.member("a").LastSeenMs != after.member("a").LastSeenMs {
				t.Error("the leader sees itself at any time")
			}
			stop()
		})
	})

	t.Run("a_slow_member_is_degraded_by_two_checks_and_healthy_by_two", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a", "b")
			m, stop := w.run()
			time.Sleep(40 * time.Second)
			w.change("b", func(f *fakeMember) { f.slow = 600 * time.Millisecond })
			w.await(m, "b", Degraded, 35*time.Second)
			b := m.Snapshot().member("b")
			if b.ProbeLatencyMs != 600 || b.Why != "it took 600ms to answer, more than 500ms" {
				t.Errorf("got %+v", b)
			}
			if b.LastSeenMs < 0 || b.LastSeenMs > 1000 {
				t.Errorf("last seen %d ms ago", b.LastSeenMs)
			}

			w.change("b", func(f *fakeMember) { f.slow = 0 })
			w.await(m, "b", Healthy, 35*time.Second)
			w.wantEvents() // healthy and degraded are both up
			stop()
		})
	})

	t.Run("a_member_whose_register_vanishes_is_gone_and_may_come_back", func(t *testing.T) {
		runVirtual(t, func(w *virtualCluster) {
			w.join("a", "b")
			m, stop := w.run()
			time.Sleep(40 * time.Second)
			w.mu.Lock()
			lost := w.members[1]
			w.members = w.members[:1]
			w.mu.Unlock()
			w.await(m, "b", Gone, 31*time.Second)
			if c := m.Snapshot(); c.Status != Critical || !strings.Contains(c.member("b").Why, "vanished") {
				t.Errorf("got %+v", c)
			}

			w.mu.Lock()
			w.members = append(w.members, lost)
			w.mu.Unlock()
			w.await(m, "b", Healthy, 31*time.Second)
			w.wantEvents("node_down b healthy>gone", "node_up b gone>healthy")
			stop()
		})
	})
}
