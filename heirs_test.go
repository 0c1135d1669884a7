package regent_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// TestHeirs is about the many elections of one dead member, and how ten others share them. Time is virtual, so that
// shares depend on what the members wait for, and not on the processors of the machine.
func TestHeirs(t *testing.T) {
	const heirs, elections = 10, 1_000
	const even = elections / heirs

	t.Run("each_takes_about_as_many_and_few_requests_are_sent", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			least, most, requests := takeOver(t, heirs, elections, 0)
			if least < even/2 || most > 2*even {
				t.Errorf("shares of %d to %d elections", least, most)
			}

			if requests > 8*heirs { // it was 26 for each when every change was read at once
				t.Errorf("%d requests of %d heirs", requests, heirs)
			}
		})
	})

	t.Run("who_is_slow_gets_a_share_all_the_same", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			// What follows one after the other takes the slowest up to 2.7 s, and a head start is 1.5 s.
			least, most, _ := takeOver(t, heirs, elections, 60*time.Millisecond)
			if least < even/2 || most > 2*even {
				t.Errorf("shares of %d to %d elections", least, most)
			}
		})
	})
}

// takeOver kills a member that holds all elections, and returns how its heirs have shared them and how many requests
// they sent for that. Each request takes that time, once for every heir before.
func takeOver(t *testing.T, heirs, elections int, slower time.Duration) (least, most int, requests int64) {
	store := memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	duties := dutiesOf(elections)

	run := func(m *regent.Member) {
		m.Config = regent.Cluster()
		m.Config.LeaseDuration = 30 * time.Second
		running.Go(func() { _ = m.Run(ctx, duties...) })
	}

	shares := func() map[string]int {
		all := map[string]int{}
		for r, err := range store.List(t.Context(), "election/") {
			check(t, err)
			all[r.Holder.ID]++
		}

		return all
	}

	var line atomic.Pointer[regent.Lifeline]
	dead := store.Client("dead", memstore.Faults{})
	run(&regent.Member{Store: dead, ID: "dead", OnLifeline: func(l regent.Lifeline) { line.Store(&l) }})
	for shares()["dead"] < elections {
		time.Sleep(time.Second)
	}

	clients := make([]*memstore.Client, heirs)
	for i := range clients {
		id := fmt.Sprint("heir", i)
		clients[i] = store.Client(id, memstore.Faults{})
		run(&regent.Member{Store: clients[i], ID: id})
	}

	time.Sleep(regent.Cluster().ElectionInterval) // they follow it
	for i, c := range clients {
		each := time.Duration(i) * slower
		c.SetFaults(memstore.Faults{Request: memstore.Delay{Min: each, Max: each}})
		requests -= c.Counts().Total()
	}

	dead.SetFaults(memstore.Faults{CutRequests: true, CutAnswers: true}) // killed
	defer dead.SetFaults(memstore.Faults{})                              // so that it can leave
	check(t, regent.Reap(ctx, store, line.Load().Register, line.Load().Holder))

	held := shares()
	for ; held["dead"] > 0 || held[""] > 0; held = shares() {
		time.Sleep(10 * time.Millisecond)
	}

	least = elections
	for i, c := range clients {
		least = min(least, held[fmt.Sprint("heir", i)])
		most = max(most, held[fmt.Sprint("heir", i)])
		requests += c.Counts().Total()
	}

	t.Logf("%d to %d elections each, %d requests", least, most, requests)
	return least, most, requests
}

// dutiesOf returns duties that do nothing, in as many elections.
func dutiesOf(elections int) []regent.Duty {
	duties := make([]regent.Duty, elections)
	for i := range duties {
		duties[i] = regent.Duty{Election: fmt.Sprintf("election/%05d", i)}
	}

	return duties
}
