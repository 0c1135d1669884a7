package regent_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent"
)

// closely is how long a fleet may be without a leader after a crash, if somebody watches closely: its lease, the time
// since the last heartbeat was read, the takeover delay, and the requests.
const closely = 30 * time.Second

// seldom is how long a standby of a small fleet watches seldom, at the longest.
const seldom = 60 * time.Second

// filled is how long a place stays empty: the leader lists the members every half lease, finds that a heartbeat has not
// changed for a lease, and calls another member, which learns of that by its next heartbeat.
const filled = 2*20*time.Second + 2*5*time.Second

// steadyFleet starts a fleet over a store without push, and returns it when all know who is to watch closely.
func steadyFleet(c *cluster, size int, change ...func(*regent.Member)) []*node {
	nodes := startFleet(c, size, append([]func(*regent.Member){config(regent.Fleet()), withoutPush}, change...)...)
	time.Sleep(3 * time.Minute)
	return nodes
}

// crash cuts members off for ever: to all others they are dead.
func crash(nodes ...*node) {
	for _, n := range nodes {
		n.client.SetFaults(cut)
	}
}

// sent returns how many requests a member sends in the next time, but for its heartbeats.
func sent(f *traffic, n *node, d time.Duration) int {
	f.restart()
	time.Sleep(d)
	f.mu.Lock()
	defer f.mu.Unlock()

	all := 0
	for what, n := range f.by[n.ID] {
		if what != heartbeats {
			all += n
		}
	}

	return all
}

// TestStandbys is about who watches a leader closely, and who seldom.
func TestStandbys(t *testing.T) {
	t.Run("the_best_three_watch_closely_and_the_others_seldom", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			f := watchTraffic(c.store)
			nodes := steadyFleet(c, 12)
			f.restart()
			time.Sleep(5 * time.Minute)
			for i, n := range nodes[1:] {
				reads := f.reads(n.ID)
				if close := i < 3; close && reads < 90 || !close && reads > 20 {
					t.Errorf("%s has read %d times in 5 minutes", n.ID, reads)
				}
			}

			quitAll(nodes)
		})
	})

	t.Run("nobody_takes_a_leader_for_dead_that_it_watches_seldom", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			nodes := steadyFleet(c, 8)
			for range 600 {
				time.Sleep(500 * time.Millisecond)
				for _, n := range nodes {
					if v, ok := n.View("seat"); !ok || v.Leader != nodes[0].ID || v.Expired {
						t.Fatalf("%s sees %+v", n.ID, v)
					}
				}
			}

			quitAll(nodes)
		})
	})

	t.Run("a_crash_is_followed_by_the_next_in_order_each_time", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			nodes := steadyFleet(c, 20)
			for i := range 10 {
				crash(nodes[i])
				n, took := leader(t, closely, nodes[i+1:]...)
				if n != nodes[i+1] {
					t.Errorf("after %s, %s leads after %v", nodes[i].ID, n.ID, took)
				}

				time.Sleep(20 * time.Second)
			}

			quitAll(nodes)
		})
	})

	t.Run("the_places_of_dead_watchers_are_filled", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			f := watchTraffic(c.store)
			nodes := steadyFleet(c, 200) // so many that nobody finds out by itself in that time
			crash(nodes[1:4]...)
			time.Sleep(filled)
			f.restart()
			time.Sleep(40 * time.Second)
			for _, n := range nodes[4:7] {
				if reads := f.reads(n.ID); reads < 8 {
					t.Errorf("%s has read %d times in 40 s, as one that watches seldom", n.ID, reads)
				}
			}

			crash(nodes[0])
			if n, took := leader(t, closely, nodes[4:]...); n != nodes[4] {
				t.Errorf("%s leads after %v", n.ID, took)
			}

			quitAll(nodes)
		})
	})

	t.Run("the_loss_of_all_who_watch_closely_is_noticed", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			nodes := steadyFleet(c, 5)
			crash(nodes[:4]...)
			_, took := leader(t, seldom+closely, nodes[4:]...)
			t.Logf("the only one that is left leads after %v", took)
			quitAll(nodes)
		})
	})

	t.Run("the_loss_of_all_who_watch_closely_is_noticed_soon_in_a_large_fleet", func(t *testing.T) {
		for _, later := range []time.Duration{0, 40 * time.Second, 80 * time.Second} {
			bubble(t, func(c *cluster) {
				nodes := steadyFleet(c, 100)
				time.Sleep(later) // they do not all watch at the same time
				crash(nodes[:4]...)
				_, took := leader(t, closely+10*time.Second, nodes[4:]...)
				t.Logf("one of many leads after %v", took)
				quitAll(nodes)
			})
		}
	})

	t.Run("a_better_candidate_that_joins_gets_a_place", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			f := watchTraffic(c.store)
			nodes := steadyFleet(c, 12)
			a := c.member("a", config(regent.Fleet()), withoutPush).lead()
			time.Sleep(time.Minute)
			if got := sent(f, a, 40*time.Second); got < 8 {
				t.Errorf("it sent %d requests in 40 s, as one that watches seldom", got)
			}

			crash(nodes[0])
			if n, took := leader(t, closely, append(nodes[1:], a)...); n != a {
				t.Errorf("%s leads after %v", n.ID, took)
			}

			a.quit()
			quitAll(nodes)
		})
	})

	t.Run("P02_an_election_is_handed_over_to_one_who_watches_seldom", func(t *testing.T) {
		for _, by := range []int{0, 11} {
			bubble(t, func(c *cluster) {
				nodes := steadyFleet(c, 12)
				check(t, nodes[by].HandOff(c.ctx, "seat", nodes[9].ID))
				if n, took := leader(t, 30*time.Second, nodes...); n != nodes[9] {
					t.Errorf("asked by %s: %s leads after %v", nodes[by].ID, n.ID, took)
				}

				quitAll(nodes)
			})
		}
	})

	t.Run("a_release_is_found_by_those_who_watch_closely", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			nodes := steadyFleet(c, 20)
			nodes[0].quit()
			n, took := leader(t, 2*regent.Fleet().ElectionInterval, nodes[1:]...)
			if n != nodes[1] {
				t.Errorf("%s leads after %v", n.ID, took)
			}

			quitAll(nodes[1:])
		})
	})
}

// TestStandbysThatCannotLead is about members that take no place.
func TestStandbysThatCannotLead(t *testing.T) {
	t.Run("the_only_candidate_watches_closely_among_many_workers", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			f := watchTraffic(c.store)
			nodes := startFleet(c, 2, config(regent.Fleet()), withoutPush)
			var workers []*node
			for i := range 12 {
				workers = append(workers, c.member(fmt.Sprintf("w%02d", i), config(regent.Fleet(),
					func(c *regent.Config) { c.Ineligible = true }), withoutPush).lead())
			}

			time.Sleep(3 * time.Minute)
			f.restart()
			time.Sleep(5 * time.Minute)
			for _, w := range workers {
				if reads := f.reads(w.ID); reads > 20 {
					t.Errorf("%s has read %d times in 5 minutes", w.ID, reads)
				}
			}

			crash(nodes[0])
			leader(t, closely, nodes[1])
			quitAll(workers)
			quitAll(nodes)
		})
	})

	t.Run("an_unhealthy_candidate_loses_its_place", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			f := watchTraffic(c.store)
			nodes := steadyFleet(c, 12)
			b := c.member("b", config(regent.Fleet()), withoutPush, func(m *regent.Member) {
				m.Health = func(context.Context) error { return fmt.Errorf("not today") }
			}).lead()
			time.Sleep(3 * time.Minute)
			if got := sent(f, b, 40*time.Second); got > 8 {
				t.Errorf("it sent %d requests in 40 s, as one that watches closely", got)
			}

			b.quit()
			quitAll(nodes)
		})
	})
}

// TestSmallClusters is about clusters in which everybody watches closely.
func TestSmallClusters(t *testing.T) {
	for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "fleet": regent.Fleet()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				nodes := startFleet(c, 4, config(profile), withoutPush)
				time.Sleep(3 * time.Minute)
				first, _ := leader(t, 0, nodes...)
				var rest []*node
				for _, n := range nodes {
					if n != first {
						rest = append(rest, n)
					}
				}

				crash(append(rest[:2:2], first)...) // whoever is left was watching, and waits for the better ones
				leader(t, profile.LeaseDuration+profile.LeaseDuration/3+10*time.Second, rest[2])
				quitAll(nodes)
			})
		})
	}
}
