package regent_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// load counts all requests to a store, by the second in which they came.
type load struct {
	mu      sync.Mutex
	start   time.Time
	seconds []int
}

// watchLoad counts from now on, over that many seconds. No member runs yet.
func watchLoad(s *memstore.Store, seconds int) *load {
	l := &load{}
	l.restart(seconds)
	s.OnRequest = func(r memstore.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k := int(r.At.Sub(l.start) / time.Second); k < len(l.seconds) {
			l.seconds[k]++
		}
	}
	return l
}

// restart counts anew from now on.
func (l *load) restart(seconds int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start = time.Now()
	l.seconds = make([]int, seconds)
}

// check fails if some second had more than three times the mean.
func (l *load) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := 0
	for _, n := range l.seconds {
		sum += n
	}

	mean := float64(sum) / float64(len(l.seconds))
	top := slices.Max(l.seconds)
	t.Logf("%d requests, %.1f a second, at most %d: %v", sum, mean, top, l.seconds)
	if float64(top) > 3*mean {
		t.Errorf("%d requests in second %d, the mean is %.1f", top, slices.Index(l.seconds, top), mean)
	}
}

// pushless hides the push of a store: everything is found by polling.
type pushless struct{ driver.Store }

func withoutPush(m *regent.Member) { m.Store = pushless{m.Store} }

// startFleet starts members with IDs from n000 on.
func startFleet(c *cluster, size int, change ...func(*regent.Member)) []*node {
	var nodes []*node
	for i := range size {
		nodes = append(nodes, c.member(fmt.Sprintf("n%03d", i), change...).lead())
	}
	return nodes
}

// quitAll stops the leader last, so that nobody else has to be elected.
func quitAll(nodes []*node) {
	for _, n := range slices.Backward(nodes) {
		n.quit()
	}
}

func TestFleet(t *testing.T) {
	const second = time.Second
	for _, tt := range []struct {
		name    string
		workers int
		conf    func(*regent.Member)
		window  time.Duration // of the jitter
		elected time.Duration // when there is a leader at the latest
		seconds int           // over which requests are counted
	}{
		{"J11_fifty_workers_spread_over_5s_and_are_up_within_10s", 50, config(regent.Fleet()), 5 * second,
			10 * second, 30},
		{"J13_two_hundred_workers_spread_over_15s", 200, jitter(0, 15*second), 15 * second, 20 * second, 60},
	} {
		for push, change := range map[string]func(*regent.Member){"with_push": func(*regent.Member) {},
			"without_push": withoutPush} {
			t.Run(tt.name+"/"+push, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					all := watchLoad(c.store, tt.seconds)
					nodes := startFleet(c, tt.workers, tt.conf, change)
					time.Sleep(tt.elected)
					if n, _ := leader(t, 0, nodes...); n.ID != "n000" {
						t.Errorf("%s leads", n.ID)
					}

					time.Sleep(time.Duration(tt.seconds)*second - tt.elected)

					all.check(t)
					for _, n := range nodes {
						if v, ok := n.View("seat"); len(n.kinds(regent.EventMemberJoined)) != 1 || !ok ||
							v.Leader != "n000" {
							t.Errorf("%s has not joined, or does not know the leader: %+v", n.ID, v)
						}
					}

					quitAll(nodes)
				})
			})
		}
	}

	t.Run("J11_first_requests_spread_over_the_window", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			f := watchFirsts(c.store)
			nodes := startFleet(c, 50, config(regent.Fleet()))
			time.Sleep(10 * second)
			seconds := make([]int, 5)
			for id, at := range f.of() {
				if at > 5*second {
					t.Errorf("%s came after %v", id, at)
					continue
				}

				seconds[min(int(at/second), 4)]++
			}

			if slices.Min(seconds) == 0 || slices.Max(seconds) > 30 {
				t.Errorf("first requests by second: %v", seconds)
			}

			quitAll(nodes)
		})
	})

	t.Run("J13_a_takeover_does_not_make_standbys_poll_in_step", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			all := watchLoad(c.store, 30)
			nodes := startFleet(c, 100, config(regent.Fleet()))
			time.Sleep(30 * second)
			nodes[0].quit() // all others hear of it at the same moment
			if n, _ := leader(t, 2*second, nodes...); n.ID != "n001" {
				t.Errorf("%s leads", n.ID)
			}

			time.Sleep(10 * second)
			all.restart(30)
			time.Sleep(30 * second)
			all.check(t)
			quitAll(nodes[1:])
		})
	})

	t.Run("J08_after_the_start_up_jitter_no_wait_is_random", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", config(regent.Fleet(),
				func(c *regent.Config) { c.StartupJitterMin = c.StartupJitterMax }))
			var firstRead time.Time
			c.store.OnRequest = func(r memstore.Request) {
				if firstRead.IsZero() && r.Name == "seat" {
					firstRead = time.Now()
				}
			}
			a.lead()
			time.Sleep(20 * second)
			started := a.kinds(regent.EventMemberStarted)
			if len(started) != 1 {
				t.Fatalf("started %v", started)
			}

			want := time.Duration(regent.Phase(a.Member) * float64(second))
			if got := firstRead.Sub(started[0].Time); got < want-time.Millisecond || got > want+time.Millisecond {
				t.Errorf("it first reads its election after %v, want its phase, %v", got, want)
			}

			a.quit()
		})
	})

	t.Run("P02_a_member_of_a_fleet_hears_of_a_handoff_soon_after_a_claim", func(t *testing.T) {
		for range 5 {
			bubble(t, func(c *cluster) {
				nodes := startFleet(c, 2, config(regent.Fleet()))
				leader(t, 30*second, nodes[0])
				time.Sleep(10 * time.Millisecond)
				go func() { _ = nodes[0].HandOff(c.ctx, "seat", nodes[1].ID) }()
				if _, took := leader(t, 10*second, nodes[1]); took > 100*time.Millisecond {
					t.Errorf("the named successor leads after %v", took)
				}

				time.Sleep(second)
				quitAll(nodes)
			})
		}
	})

	t.Run("P02_a_member_of_a_fleet_hears_of_a_release_soon_after_a_claim", func(t *testing.T) {
		for range 5 {
			bubble(t, func(c *cluster) {
				b := c.member("b", config(regent.Fleet(), func(c *regent.Config) { c.Rank = regent.RankFirst }))
				go func() {
					for range b.Watch(c.ctx, "seat") {
					}
				}()

				time.Sleep(10 * second) // it has seen that nobody leads
				a := c.member("a").lead()
				leader(t, second, a)
				b.lead()
				time.Sleep(10 * time.Millisecond)
				a.stop()
				if _, took := leader(t, 10*second, b); took > 100*time.Millisecond {
					t.Errorf("the other one leads after %v", took)
				}

				a.quit()
				b.quit()
			})
		}
	})

	for name, conf := range map[string]func(*regent.Member){
		"without_jitter": jitter(0, 0), "defaults": config(regent.Fleet()), "from_2s_to_8s": jitter(2*second, 8*second),
	} {
		t.Run("J15_the_smallest_ID_leads_over_a_new_store_and_after_every_restart_of_all/"+name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				for round := range 10 {
					started := time.Now()
					nodes := startFleet(c, 9, conf)
					if n, _ := leader(t, 30*second, nodes...); n.ID != "n000" {
						t.Errorf("round %d: %s leads", round, n.ID)
					}

					time.Sleep(30*second - time.Since(started))
					quitAll(nodes)
				}
			})
		})
	}

	t.Run("J15_after_the_death_of_all_hosts_the_smallest_ID_leads", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			for round := range 3 {
				nodes := startFleet(c, 9, config(regent.Fleet()))
				if n, _ := leader(t, time.Minute, nodes...); n.ID != "n000" {
					t.Errorf("round %d: %s leads", round, n.ID)
				}
				for _, n := range nodes {
					n.client.SetFaults(cut) // nothing is released
				}

				quitAll(nodes)
			}
		})
	})
}

// TestFleetAfterAbandonedClaim restarts a fleet over an election whose record still names a member that has left: its
// claim was applied after it had left.
func TestFleetAfterAbandonedClaim(t *testing.T) {
	push := map[string]func(*regent.Member){"with_push": func(*regent.Member) {}, "without_push": withoutPush}
	for name, change := range push {
		for _, window := range []time.Duration{2 * time.Second, 15 * time.Second} {
			t.Run(fmt.Sprintf("J15_the_smallest_ID_leads/%s/jitter_of_%v", name, window), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					leaveClaimed(c, "n007")
					nodes := startFleet(c, 10, jitter(0, window), change)
					time.Sleep(window + 20*time.Second)
					if n, _ := leader(t, 0, nodes...); n.ID != "n000" {
						t.Errorf("%s leads", n.ID)
					}

					quitAll(nodes)
				})
			})
		}
	}
}

// leaveClaimed leaves an election that a member holds which has left.
func leaveClaimed(c *cluster, id string) {
	c.t.Helper()

	who := driver.Identity{ID: id, Incarnation: "2.left"}
	lease := regent.Fleet().LeaseDuration
	register := driver.MemberRegister(id)
	member := driver.Record{Name: register, Holder: who, Epoch: 2, Nonce: 1, Duration: lease}
	seat := driver.Record{Name: "seat", Holder: who, Epoch: 3, Nonce: 2, Duration: lease, Via: register}

	joined, err := c.store.Swap(c.t.Context(), member)
	if err != nil {
		c.t.Fatal(err)
	}

	joined.Holder = driver.Identity{}
	for _, r := range []driver.Record{joined, seat} {
		if _, err := c.store.Swap(c.t.Context(), r); err != nil {
			c.t.Fatal(err)
		}
	}
}
