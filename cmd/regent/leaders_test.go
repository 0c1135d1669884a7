package main

import (
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// roles polls /readyz of all nodes until stop is called, and fails if two nodes are leader.
func roles(t *testing.T, every time.Duration, nodes ...*daemon) (stop func()) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)

		tick := time.NewTicker(every)
		defer tick.Stop()

		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}

			var leaders []string
			for _, n := range nodes {
				if _, body := n.get("/readyz"); body["role"] == "leader" {
					leaders = append(leaders, n.name)
				}
			}

			if len(leaders) > 1 {
				t.Errorf("%v say at once that they lead", leaders)
			}
		}
	}()

	return func() {
		close(quit)
		<-done
	}
}

// tookOver checks by their logs that b has led after a: a had the first epoch, and lost it before b had the second one,
// unless a was frozen.
func tookOver(t *testing.T, a, b *daemon, frozen bool) {
	t.Helper()
	granted, _ := a.terms("became leader")
	lost, lostAt := a.terms("lost leadership")

	next, nextAt := b.terms("became leader")
	if !slices.Equal(granted, []uint64{1}) || !slices.Equal(lost, []uint64{1}) || !slices.Equal(next, []uint64{2}) {
		t.Fatalf("a was granted %v and lost %v, b was granted %v", granted, lost, next)
	}

	// A line is written a moment after its event. Whether two led at once is polled.
	if late := lostAt[0].Sub(nextAt[0]); late > 2*time.Second && !frozen {
		t.Errorf("a logged its loss %v after b its term", late)
	}
}

// epochsGrow checks that no two terms had the same epoch, and that epochs only grow.
func epochsGrow(t *testing.T, nodes ...*daemon) {
	t.Helper()
	seen := map[uint64]string{}
	for _, d := range nodes {
		epochs, _ := d.terms("became leader")
		if !slices.IsSorted(epochs) {
			t.Errorf("%s led in epochs %v", d.name, epochs)
		}

		for _, epoch := range epochs {
			if seen[epoch] != "" {
				t.Errorf("%s and %s both led in epoch %d", seen[epoch], d.name, epoch)
			}
			seen[epoch] = d.name
		}
	}
}

// neverTwo polls /leader of all nodes, every 10 ms, until the returned function is called.
func neverTwo(t *testing.T, nodes ...*daemon) (stop func()) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)

		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()

		for polls := 0; ; polls++ {
			select {
			case <-quit:
				t.Logf("%d rounds of polling", polls)
				return
			case <-tick.C:
			}

			first := leading(nodes)
			if len(first) < 2 {
				continue
			}

			// Those answers came one after the other. A node that gives the same answer again, in the same term, led
			// when the last of them came.
			again := leading(nodes)
			maps.DeleteFunc(first, func(i int, epoch any) bool { return again[i] != epoch })

			if len(first) > 1 {
				t.Errorf("nodes lead at once: %v", first)
			}
		}
	}()

	return func() {
		close(quit)
		<-done
	}
}

// leading asks all nodes at once whether they lead, and returns the epochs of those that do, by index.
func leading(nodes []*daemon) map[int]any {
	epochs := map[int]any{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			if code, body := n.get("/leader"); code == http.StatusOK {
				mu.Lock()
				defer mu.Unlock()
				epochs[i] = body["epoch"]
			}
		})
	}

	wg.Wait()
	return epochs
}
