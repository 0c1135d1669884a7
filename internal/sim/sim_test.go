package sim

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/regentd/regent/internal/virtual"
)

// simulate runs a seed in a bubble of its own.
func simulate(t *testing.T, seed uint64) (h *History) {
	virtual.Test(t, func(*testing.T) { h = Run(NewPlan(seed)) })
	return h
}

// TestSeeds runs the seeds from REGENT_FROM, 1 if it is not set, to REGENT_SEEDS, or REGENT_SEED alone
// with its timeline. REGENT_CLASS leaves out all other classes, REGENT_ONLY looks for some invariants
// only, and with REGENT_FIRST it stops at the first violation.
func TestSeeds(t *testing.T) {
	if seed := number(t, "REGENT_SEED", 0); seed != 0 {
		replay(t, seed)
		return
	}
	seeds := uint64(2000)
	if testing.Short() {
		seeds = 200
	}
	seeds = number(t, "REGENT_SEEDS", seeds)
	from := number(t, "REGENT_FROM", 1)
	if from == 0 || from > seeds {
		t.Fatalf("REGENT_FROM is %d: it must be between 1 and REGENT_SEEDS, which is %d", from, seeds)
	}
	class, only, first := os.Getenv("REGENT_CLASS"), os.Getenv("REGENT_ONLY"), os.Getenv("REGENT_FIRST") != ""
	var next atomic.Uint64
	next.Store(from - 1)
	var failed atomic.Bool
	reached := &tally{count: map[State]int{}}
	t.Cleanup(func() {
		if seeds-from+1 >= 2000 && class == "" && only == "" && !first {
			reached.want(t, States)
		}
	})
	for i := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprint("lane", i), func(t *testing.T) {
			t.Parallel()
			for seed := next.Add(1); seed <= seeds && !(first && failed.Load()); seed = next.Add(1) {
				if class != "" && NewPlan(seed).Class.String() != class {
					continue
				}
				h := simulate(t, seed)
				reached.add(h)
				if !report(t, h, only) {
					failed.Store(true)
				}
			}
		})
	}
}

// tally counts how often each state was reached.
type tally struct {
	mu    sync.Mutex
	count map[State]int
}

func (y *tally) add(h *History) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for s, n := range h.Reached {
		y.count[s] += n
	}
}

// want fails the test for every state that was never reached.
func (y *tally) want(t *testing.T, states []State) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, s := range states {
		t.Logf("%6d times: %s", y.count[s], s)
		if y.count[s] == 0 {
			t.Errorf("no seed reaches %s", s)
		}
	}
}

func number(t *testing.T, key string, otherwise uint64) uint64 {
	s := os.Getenv(key)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return n
}

// replay prints the timeline of a seed. What runs at one instant may take another turn this time,
// so it tries again if nothing shows.
func replay(t *testing.T, seed uint64) {
	h := simulate(t, seed)
	for try := 0; len(Check(h)) == 0 && try < 50; try++ {
		h = simulate(t, seed)
	}
	var b strings.Builder
	h.Write(&b, "", 0)
	t.Logf("%s\n%s", describe(NewPlan(seed)), b.String())
	report(t, h, "")
}

// report fails the test if the history breaks a promise, and says how to see it again.
func report(t *testing.T, h *History, only string) bool {
	ok := true
	for _, v := range Check(h) {
		if only != "" && !strings.Contains(only+" ", v.Invariant+" ") {
			continue
		}
		var b strings.Builder
		until := *h
		until.Events = h.Events[:v.Event+1]
		until.Write(&b, v.Election, 40)
		t.Errorf("seed %d (%s) violates %s\n%sreplay: REGENT_SEED=%d go test -v -run TestSeeds ./internal/sim", h.Seed,
			h.Class, v, b.String(), h.Seed)
		ok = false
	}
	return ok
}

// describe says in a few lines what a seed stands for.
func describe(p *Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: class %s, elections %v, faulty %v, bound %v, panics %t, unreadable %d\n", p.Seed, p.Class,
		p.Elections, p.Faulty, p.Bound,
		p.Panics, p.Unreadable)
	for _, m := range p.Members {
		fmt.Fprintf(&b,
			"  %s rate %.4f notices %t idle %t W %v G %v D %v beat %v poll "+
				"%v-%v delay %v jitter %v own %t rank %s register %t\n "+
				"    %+v\n     %+v\n", m.ID, m.Rate, m.Notices, m.Idle,
			m.Config.LeaseDuration, m.Config.StopTimeout, trust(m.Config.LeaseDuration, m.Config.StopTimeout),
			m.Config.HeartbeatInterval,
			m.Config.ElectionInterval, m.Config.ElectionIntervalMax, m.Config.TakeoverDelay, m.Config.StartupJitterMin,
			m.Config.OwnLease, m.Config.Rank, m.Config.Register, m.Duty, m.Faults)
	}
	return b.String()
}
