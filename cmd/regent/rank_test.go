package main

import (
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/api"
)

// TestRanks checks which real process leads next. Others wait one heartbeat for a better candidate: the heartbeat is
// long, so that a busy machine does not decide.
func TestRanks(t *testing.T) {
	timing := []string{"--lease-duration", "30s", "--heartbeat-interval", "8s", "--election-interval", "2s"}

	// cluster returns a function that starts a node of one cluster and waits until it has joined.
	cluster := func(t *testing.T, rank string) (join func(name string, args ...string) *daemon) {
		store := sqliteStore(t)
		return func(name string, args ...string) *daemon {
			args = append(append([]string{"--rank", rank}, timing...), args...)
			d := start(t, name, store, nil, args...)
			d.await("member:joined")
			return d
		}
	}
	stops := func(t *testing.T, leader, next *daemon, others ...*daemon) {
		t.Helper()
		leader.stop()
		next.until("/leader", 200)

		for _, d := range others {
			if len(d.said("became leader")) != 0 {
				t.Errorf("%s led before %s", d.name, next.name)
			}
		}
	}

	t.Run("P01_the_highest_priority_leads_next_and_does_not_preempt_unless_asked", func(t *testing.T) {
		t.Parallel()
		join := cluster(t, "priority")
		a := join("a", "--priority", "1")
		a.until("/leader", 200)
		c := join("c", "--priority", "3")

		b := join("b", "--priority", "5")
		for _, d := range []*daemon{b, c} {
			if body := d.until("/standby", 200); body["leader"] != "a" {
				t.Errorf("%s says %v", d.name, body)
			}
		}

		stops(t, a, b, c)
		again := join("a", "--priority", "1")
		stops(t, b, c, again)
		c.stop()
		again.stop()
	})

	t.Run("P01_with_preemption_a_better_node_is_handed_the_election", func(t *testing.T) {
		t.Parallel()
		join := cluster(t, "priority")
		a := join("a", "--priority", "1")
		a.until("/leader", 200)
		b := join("b", "--priority", "5", "--preempt")

		if got := a.await("lost leadership.*"); !strings.Contains(got, "reason=handoff") {
			t.Errorf("a says %q", got)
		}
		if body := b.until("/leader", 200); body["epoch"] != 2.0 {
			t.Errorf("b says %v", body)
		}

		a.until("/standby", 200)
		b.stop()
		a.stop()
	})

	t.Run("N02_the_node_nearest_to_the_store_leads_next", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		join := func(name string, delay time.Duration) *daemon {
			p := startProxy(t, "127.0.0.1:"+r.port)
			p.delay.Store(int64(delay))
			d := start(t, name, p.address(), nil, "--rank", "latency", "--heartbeat-interval", "1s", "--lease-duration",
				"20s", "--election-interval", "2s", "--reaper=false")
			d.await("member:joined")
			return d
		}
		a := join("a", 0)
		a.until("/leader", 200)
		far := join("far", 600*time.Millisecond)
		near := join("near", 60*time.Millisecond)
		for _, d := range []*daemon{far, near} {
			seen(d, "/v1/metrics", func(f api.Figures) bool { return f.Heartbeats > 12 })
		}

		stops(t, a, near, far)
		near.stop()
		far.until("/leader", 200)
		far.stop()
	})

	t.Run("P04_the_first_region_of_the_list_leads_next", func(t *testing.T) {
		t.Parallel()
		join := cluster(t, "region:eu,us")
		a := join("a", "--region", "us")
		a.until("/leader", 200)
		b := join("b", "--region", "ap")
		c := join("c", "--region", "us")
		d := join("d", "--region", "eu")
		stops(t, a, d, b, c)
		stops(t, d, c, b)
		stops(t, c, b)
		b.stop()
	})
}
