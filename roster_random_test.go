package regent_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

// TestMembersAtRandom has a member whose heartbeats are late, but within its lease, and lists that are slow and are
// sent at any time: the member is always alive.
func TestMembersAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, func(c *cluster) {
			const lease = 6 * time.Second
			a := c.joined("a", "1")
			end := time.Now().Add(30 * time.Minute)
			var beats sync.WaitGroup
			beats.Go(func() {
				g := rand.New(rand.NewPCG(seed, 1))
				for time.Now().Before(end) {
					time.Sleep(time.Duration(1 + g.Int64N(int64(lease)-1)))
					a.beat()
				}
			})

			slow := memstore.Delay{Max: 4 * time.Second}
			client := c.store.Client("watcher", memstore.Faults{Seed: seed, Request: slow, Answer: slow})
			roster := (&regent.Member{Store: client}).NewRoster()
			g := rand.New(rand.NewPCG(seed, 2))
			for time.Now().Before(end.Add(-time.Minute)) {
				states, err := roster.List(c.ctx)
				check(c.t, err)
				if got := rollText(states); got != "a+" {
					t.Errorf("seed %d: the list is %q, and the heartbeat %v old", seed, got, states[0].HeartbeatAge)
					break
				}
				time.Sleep(time.Duration(g.Int64N(int64(3 * time.Second))))
			}
			beats.Wait()
		})
	}
}
