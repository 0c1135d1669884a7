package explore

import (
	"hash/maphash"
	"runtime/debug"
	"time"

	"github.com/regentd/regent/internal/graph"
)

// Result is what an exploration found.
type Result struct {
	States  int
	Steps   int
	Depth   int
	Whole   bool // the state space was exhausted
	Seen    Witness
	Failure *Failure
	Elapsed time.Duration
}

// Failure is a violation and the shortest way to it.
type Failure struct {
	Violation string
	Trace     []string
}

// Explore visits every state that a setup can reach, breadth first, and stops at the first violation or at the limit.
func Explore(s Setup) Result {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	began := time.Now()
	x := newExplorer(&s)
	x.visit()
	if x.result.Failure == nil && x.result.Whole {
		x.checkLiveness()
	}

	x.result.States = len(x.from)
	x.result.Elapsed = time.Since(began)
	return x.result
}

type key [2]uint64

// explorer holds one exploration. A state is known by the hash of its encoding; its world is kept only until it was
// expanded.
type explorer struct {
	setup  *Setup
	seeds  [2]maphash.Seed
	seen   map[key]uint32
	from   []origin
	fair   graph.Graph
	led    [][]bool // by election: whether somebody leads in this state
	canon  canon
	result Result
}

// origin is how a state was first reached.
type origin struct {
	parent uint32
	action uint16
}

func newExplorer(s *Setup) *explorer {
	return &explorer{setup: s, seen: map[key]uint32{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// key returns by what a state is known.
func (x *explorer) key(w *world) key {
	b := x.canon.encode(w)
	return key{maphash.Bytes(x.seeds[0], b), maphash.Bytes(x.seeds[1], b)}
}

func (x *explorer) add(w *world, parent uint32, act int) (uint32, bool) {
	k := x.key(w)
	if n, ok := x.seen[k]; ok {
		return n, false
	}

	n := uint32(len(x.from))
	x.seen[k] = n
	x.from = append(x.from, origin{parent, uint16(act)})
	for e := range x.led {
		x.led[e] = append(x.led[e], w.led(e))
	}

	return n, true
}

// led reports whether somebody leads an election.
func (w *world) led(k int) bool {
	for i := range w.procs {
		if w.leads(i, k) {
			return true
		}
	}

	return false
}

func (x *explorer) visit() {
	x.led = make([][]bool, x.setup.Elections)
	first := newWorld(x.setup)
	x.add(first, 0, 0)
	level := []*world{first}
	var number uint32
	var all []action

	for len(level) > 0 {
		var next []*world
		for i, w := range level {
			level[i] = nil
			all = w.actions(all)
			for k, a := range all {
				x.result.Steps++
				fair := w.fair(a)
				t := w.clone()
				if err := t.do(a); err != nil {
					x.fail(err.Error(), number, k)
					return
				}

				x.result.Seen |= witness(w, t, a)
				to, isNew := x.add(t, number, k)
				if isNew {
					next = append(next, t)
				}

				if fair && to != number {
					x.fair.Edge(to)
				}
			}

			x.fair.EndNode()
			number++
			if x.setup.Limit > 0 && len(x.from) > x.setup.Limit {
				return
			}
		}

		level = next
		x.result.Depth++
	}

	x.result.Whole = true
}

// fail notes a violation by an action in a state.
func (x *explorer) fail(what string, state uint32, act int) {
	x.result.Failure = &Failure{what, x.trace(state, act)}
}

// trace replays the way to a state, and then one more action unless that is negative.
func (x *explorer) trace(state uint32, act int) []string {
	var acts []int
	if act >= 0 {
		acts = append(acts, act)
	}

	for n := state; n != 0; n = x.from[n].parent {
		acts = append(acts, int(x.from[n].action))
	}

	w := newWorld(x.setup)
	var lines []string
	for i := len(acts) - 1; i >= 0; i-- {
		a := w.actions(nil)[acts[i]]
		line := w.describe(a)
		err := w.do(a)
		lines = append(lines, line+"   | "+w.show())
		if err != nil {
			lines = append(lines, err.Error())
		}
	}

	return lines
}

// checkLiveness searches for a state from which no run without further faults leads to one in which somebody leads: it
// walks back from all states in which somebody does, and what it has not met by then is stuck.
func (x *explorer) checkLiveness() {
	back := x.fair.Reversed()
	for k := range x.setup.Elections {
		if stuck, any := back.Reach(x.led[k]); any {
			x.result.Failure = &Failure{"nobody can ever lead " + election(k) + " again", x.trace(stuck, -1)}
			return
		}
	}
}
