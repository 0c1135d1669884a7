package regent_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent"
)

// follow waits until all members show a leader, and returns how long that took.
func follow(t *testing.T, limit time.Duration, id string, nodes []*node) time.Duration {
	t.Helper()

	from := time.Now()
	for {
		late := ""
		for _, n := range nodes {
			if v, ok := n.View("seat"); !ok || v.Leader != id {
				late = n.ID
				break
			}
		}

		switch {
		case late == "":
			return time.Since(from)
		case time.Since(from) > limit:
			t.Errorf("%s does not show %s after %v", late, id, limit)
			return time.Since(from)
		}

		time.Sleep(10 * time.Millisecond)
	}
}

// TestFollowers is about members that watch seldom, on a store that notifies nobody: how soon they learn of the next
// leader, and what that costs.
func TestFollowers(t *testing.T) {
	const requests = time.Second // far more than those of a store in memory take

	for _, size := range []int{20, 200} {
		t.Run(fmt.Sprintf("all_%d_follow_a_new_leader_within_two_intervals", size), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				f := watchTraffic(c.store)
				nodes := steadyFleet(c, size)
				fleet := regent.Fleet()
				// Members that watch closely are not informed: they read the election by themselves, at times every
				// second time only.
				within := 2*fleet.ElectionInterval + time.Duration(size)*time.Second/160 + requests
				for i := range 4 {
					crash(nodes[i])
					n, _ := leader(t, closely, nodes[i+1:]...)
					if n != nodes[i+1] {
						t.Errorf("after %s, %s leads", nodes[i].ID, n.ID)
					}

					f.restart()
					took := follow(t, within, n.ID, nodes[i+1:])
					f.check(t, size, took)

					// The leader watched closely before. Until another member is known to do so in its place, anybody
					// may find the next death first.
					time.Sleep(3 * time.Minute)
				}

				quitAll(nodes)
			})
		})
	}
}

// check fails if a takeover has cost too much, in the time until all members follow.
func (f *traffic) check(t *testing.T, size int, took time.Duration) {
	t.Helper()

	r := f.rates("")
	t.Logf("all follow after %v, %.0f requests beyond heartbeats: %v", took, r.beyond*took.Seconds(), r)
	if most := float64(10 * size); r.beyond*took.Seconds() > most {
		t.Errorf("%.0f requests beyond heartbeats, want at most %.0f", r.beyond*took.Seconds(), most)
	}
}
