package regent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

func TestStats(t *testing.T) {
	beat := func(t *testing.T, n int, latency time.Duration, more ...func(*regent.Config)) (stats regent.Stats,
		events []regent.Event) {
		bubble(t, func(c *cluster) {
			a := c.member("a", config(regent.Cluster(), more...))
			a.client.SetFaults(memstore.Faults{Answer: memstore.Delay{Min: latency, Max: latency}})
			a.lead()
			for a.Stats().Heartbeats < uint64(n) {
				time.Sleep(time.Millisecond)
			}

			synctest.Wait()
			stats, events = a.Stats(), a.kinds(regent.EventContention)
			a.client.SetFaults(memstore.Faults{})
			a.quit()
		})

		return stats, events
	}

	t.Run("E08_percentiles_and_counters_are_there", func(t *testing.T) {
		s, _ := beat(t, 20, 30*time.Millisecond)
		if s.HeartbeatLatencyP99 != 30*time.Millisecond || s.HeartbeatLatencyP50 != 30*time.Millisecond ||
			s.Note != "" || s.EpochDriftEvents != 0 {
			t.Errorf("got %+v", s)
		}
	})

	t.Run("E08_the_p99_of_a_hundred_heartbeats_is_the_second_slowest", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			answers := func(d time.Duration) {
				a.client.SetFaults(memstore.Faults{Answer: memstore.Delay{Min: d,
					Max: d}})
			}
			after := func(heartbeats uint64) {
				for a.Stats().Heartbeats < heartbeats {
					time.Sleep(time.Millisecond)
				}
			}
			answers(5 * time.Millisecond)
			a.lead()
			after(98)
			answers(40 * time.Millisecond)
			after(99)
			answers(90 * time.Millisecond)
			after(100)
			s := a.Stats()
			if s.HeartbeatLatencyP99 != 40*time.Millisecond || s.HeartbeatLatencyP95 != 5*time.Millisecond ||
				s.HeartbeatLatencyP50 != 5*time.Millisecond {
				t.Errorf("got %+v", s)
			}
			a.quit()
		})
	})

	t.Run("E09_fewer_than_ten_heartbeats_are_no_data", func(t *testing.T) {
		s, _ := beat(t, 9, 30*time.Millisecond)
		if s.HeartbeatLatencyP99 != 0 || !strings.Contains(s.Note, "insufficient data") {
			t.Errorf("got %+v", s)
		}
	})

	t.Run("E10_only_the_newest_hundred_count", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			slow := memstore.Delay{Min: 900 * time.Millisecond, Max: 900 * time.Millisecond}
			a.client.SetFaults(memstore.Faults{Answer: slow})
			a.lead()
			for a.Stats().Heartbeats < 50 {
				time.Sleep(time.Millisecond)
			}
			if s := a.Stats(); s.HeartbeatLatencyP99 != slow.Min {
				t.Errorf("got %+v", s)
			}

			fast := memstore.Delay{Min: 5 * time.Millisecond, Max: 5 * time.Millisecond}
			a.client.SetFaults(memstore.Faults{Answer: fast})
			for a.Stats().Heartbeats < 151 {
				time.Sleep(time.Millisecond)
			}
			if s := a.Stats(); s.HeartbeatLatencyP99 != fast.Min {
				t.Errorf("got %+v", s)
			}

			a.quit()
		})
	})

	// A cycle may take longer than twice the interval only if the lease leaves room for it.
	slowly := func(c *regent.Config) {
		c.LeaseDuration = 40 * time.Second
		c.HeartbeatInterval = time.Second
		c.RenewInterval = time.Second
	}
	t.Run("E05_a_heartbeat_that_takes_more_than_twice_its_interval_is_contention", func(t *testing.T) {
		s, events := beat(t, 1, 3*time.Second, slowly)
		if len(events) != 1 || events[0].Measurements["durationMs"] != 3000 ||
			events[0].Measurements["expectedMs"] != 1000 || events[0].Measurements["ratio"] != 3 {
			t.Errorf("got %+v", events)
		}
		if s.ContentionEvents != 1 {
			t.Errorf("counted %d", s.ContentionEvents)
		}
	})

	t.Run("E06_within_30s_it_is_counted_but_not_said_again", func(t *testing.T) {
		s, events := beat(t, 12, 3*time.Second, slowly)
		if s.ContentionEvents != 12 || len(events) != 2 {
			t.Errorf("counted %d, said %d times in 36 s", s.ContentionEvents, len(events))
		}
	})

	t.Run("E07_detection_can_be_turned_off", func(t *testing.T) {
		s, events := beat(t, 12, 3*time.Second, slowly, func(c *regent.Config) { c.ContentionDetectionOff = true })
		if s.ContentionEvents != 0 || len(events) != 0 {
			t.Errorf("counted %d, said %d times", s.ContentionEvents, len(events))
		}
	})
}

// A standby of many elections and a store that hangs: is its loop reported as stuck?
func TestLoopLagOfManyElections(t *testing.T) {
	bubble(t, func(c *cluster) {
		duties := make([]regent.Duty, 12000)
		for i := range duties {
			duties[i].Election = fmt.Sprintf("seat%05d", i)
		}

		var nodes [2]*node
		var dones [2]chan struct{}
		ctx, cancel := context.WithCancel(c.ctx)
		for i, id := range []string{"a", "b"} {
			n := c.member(id)
			nodes[i] = n
			dones[i] = make(chan struct{})
			go func() { defer close(dones[i]); _ = n.Run(ctx, duties...) }()
			time.Sleep(10 * time.Second)
		}

		b := nodes[1]
		c.store.Hang()
		var most time.Duration
		var lost time.Duration
		start := time.Now()
		for range 6000 {
			time.Sleep(10 * time.Millisecond)
			most = max(most, b.Stats().LoopLag)
		}

		c.store.Drop()
		resumed := time.Now()
		for lost = 0; lost < 5*time.Minute; lost = time.Since(resumed) {
			time.Sleep(100 * time.Millisecond)
			_, x := nodes[0].Leads("seat00000")
			_, y := b.Leads("seat00000")
			if x || y {
				break
			}
		}

		t.Log("lag", most, "leader after", lost, time.Since(start))
		if most > 0 {
			t.Errorf("the loop of a standby was late by %v, so that livez fails", most)
		}

		cancel()
		<-dones[0]
		<-dones[1]
	})
}
