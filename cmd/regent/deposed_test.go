package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/regentd/regent/cmd/regent/internal/node"
)

// TestDeposed takes leadership from a node that runs polls and does not notice.
func TestDeposed(t *testing.T) {
	timing := []string{"--lease-duration", "6s", "--stop-timeout", "300ms", "--heartbeat-interval", "500ms",
		"--election-interval", "500ms", "--takeover-delay", "300ms", "--reaper=false"}

	// inOrder checks that no worker has begun a task of an epoch after one of a later epoch.
	inOrder := func(c *cluster) {
		c.t.Helper()

		for _, w := range c.workers {
			newest, begun := uint64(0), map[uint64]int{}
			for _, l := range c.lines(w) {
				if l.Begin == "" {
					continue
				}
				if newest = max(newest, l.Epoch); l.Epoch < newest {
					c.t.Errorf("%s has begun %s of epoch %d after a task of epoch %d", w, l.Begin, l.Epoch, newest)
				}

				begun[l.Epoch]++
			}

			c.t.Logf("%s has begun, by epoch: %v", w, begun)
			if begun[1] == 0 || begun[newest] == 0 || newest < 2 {
				c.t.Errorf("%s had no part in it: %v", w, begun)
			}
		}
	}

	t.Run("E01_E12_a_leader_that_was_frozen_gets_no_task_through_when_it_wakes_up", func(t *testing.T) {
		t.Parallel()
		c := fullCluster(t, startRedis(t).address(), timing...)
		old := c.leader()
		old.signal(syscall.SIGSTOP)
		next := c.leader(old)
		c.goesOn(2)
		old.signal(syscall.SIGCONT)
		seen(old, "/readyz", func(h node.Health) bool {
			return h.Role == node.Standby && h.Leader == next.name && h.Epoch == 2
		})
		old.await(`msg="lost leadership" .* epoch=1`)
		c.goesOn(2)
		inOrder(c)
		c.check()
	})

	t.Run("E01_E12_a_leader_that_is_cut_off_from_the_store_but_not_from_workers_stops_in_time", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		p := startProxy(t, "127.0.0.1:"+r.port)
		c := newCluster(t, p.address(), everySecond(10, webTarget(t)))
		c.polls, c.workers = 10, []string{"w1", "w2"}
		old := c.start("a", append([]string{"--worker=false"}, timing...)...)
		old.until("/leader", 200)
		c.store = r.address()
		next := c.start("b", append([]string{"--worker=false"}, timing...)...)
		next.until("/standby", 200)

		for _, w := range c.workers {
			c.start(w, append([]string{"--eligible=false"}, timing...)...)
		}

		c.underWay()
		stop := neverTwo(t, old, next)
		p.cutTo.Store(true)
		p.cutFrom.Store(true)
		next.await("became leader")
		c.goesOn(2)
		p.heal()
		seen(old, "/readyz", func(h node.Health) bool {
			return h.Role == node.Standby && h.Leader == "b" && h.Epoch == 2
		})
		stop()

		if got := old.await("lost leadership.*"); !strings.Contains(got, "reason=partition") {
			t.Errorf("a says %q", got)
		}

		c.goesOn(2)
		inOrder(c)
		c.check()
	})
}
