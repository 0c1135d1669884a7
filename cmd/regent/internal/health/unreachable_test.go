package health

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

func TestNoCoordinator(t *testing.T) {
	c := NoCoordinator([]regent.MemberView{{ID: "b", Incarnation: "1", Addr: "b:1"}, {ID: "a", Incarnation: "2"}, {ID: "left"}}, "the seat is vacant")
	if c.Status != Critical || !slices.Equal(c.Reasons, []string{"no coordinator: the seat is vacant"}) || c.Counts.Unknown != 2 || c.Counts.Members != 2 ||
		c.Members[0].ID != "a" || c.Members[1].Status != Unknown || c.Members[1].LastSeenMs != -1 {
		t.Errorf("got %+v", c)
	}
	if c := NoCoordinator(nil, ""); c.Reasons[0] != "no coordinator" || c.Members == nil {
		t.Errorf("got %+v", c)
	}
}

// Heartbeats go on, late but within their lease, members can and cannot be reached, listings fail, hints come, all at random: nobody is ever
// called unreachable or gone.
func TestNobodyWhoseHeartbeatGoesOnIsCalledUnreachable(t *testing.T) {
	for seed := range uint64(10) {
		bubble(t, func(w *world) {
			g := rand.New(rand.NewPCG(seed, 2))
			w.join("a", "b", "c", "d")
			revs := map[string]int{}
			w.opts.Interval = 1 + time.Duration(g.Int64N(int64(40*time.Second))) + time.Second
			w.opts.Members = func(ctx ctx) ([]regent.MemberView, error) {
				all, err := w.list(ctx)
				w.mu.Lock()
				defer w.mu.Unlock()
				for i := range all {
					all[i].Rev = fmt.Sprint(revs[all[i].ID])
				}
				return all, err
			}
			m, stop := w.run()
			var beats sync.WaitGroup
			for _, id := range []string{"a", "b", "c", "d"} {
				g := rand.New(rand.NewPCG(seed, uint64(id[0])))
				beats.Go(func() {
					for time.Since(w.start) < time.Hour {
						time.Sleep(time.Duration(1 + g.Int64N(int64(lease)-1)))
						w.mu.Lock()
						revs[id]++
						w.mu.Unlock()
					}
				})
			}
			for time.Since(w.start) < time.Hour {
				time.Sleep(time.Duration(g.Int64N(int64(10 * time.Second))))
				w.mu.Lock()
				f := w.fakes[g.IntN(4)]
				f.cut, f.slow = g.IntN(2) == 0, time.Duration(g.Int64N(int64(3*time.Second)))
				if w.fail = nil; g.IntN(5) == 0 {
					w.fail = errors.New("no")
				}
				w.mu.Unlock()
				if g.IntN(3) == 0 {
					select {
					case w.changed <- driver.Record{}:
					default:
					}
				}
				if c := m.Snapshot(); c.Counts.Unreachable+c.Counts.Gone > 0 {
					t.Fatalf("seed %d, after %v: %+v", seed, time.Since(w.start), c)
				}
			}
			for _, l := range w.log() {
				if strings.HasPrefix(l, "node_down") {
					t.Errorf("seed %d: %s", seed, l)
				}
			}
			stop()
			beats.Wait()
			synctest.Wait()
		})
	}
}

func TestOptions(t *testing.T) {
	members := (&world{}).list
	for want, o := range map[string]Options{
		"no Self":                     {Members: members},
		"no Members":                  {Self: "a"},
		"interval -1s":                {Self: "a", Members: members, Interval: -time.Second},
		"recheck 2s":                  {Self: "a", Members: members, Interval: time.Second, Recheck: 2 * time.Second},
		"listTimeout -1s":             {Self: "a", Members: members, ListTimeout: -time.Second},
		"probeTimeout -1s":            {Self: "a", Members: members, ProbeTimeout: -time.Second},
		"parallel -1":                 {Self: "a", Members: members, Parallel: -1},
		"degradedLatency 3s":          {Self: "a", Members: members, DegradedLatency: 3 * time.Second},
		"heartbeatInterval -1s":       {Self: "a", Members: members, HeartbeatInterval: -time.Second},
		"epochLag -1s":                {Self: "a", Members: members, EpochLag: -time.Second},
		"goneAfter -1s":               {Self: "a", Members: members, GoneAfter: -time.Second},
		"keepGone -1s: keepGone must": {Self: "a", Members: members, KeepGone: -time.Second},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
