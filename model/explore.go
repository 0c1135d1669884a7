package model

import (
	"hash/maphash"
	"time"

	"github.com/regentd/regent/internal/graph"
)

// Machine is a protocol as a transition system over states of type S.
//
// Steps works on plain states, in which every revision, nonce and incarnation has a number of its own. Canon maps a
// state to the representative of all states that behave alike; the explorer keeps only those, which makes the state
// space finite.
type Machine[S comparable] interface {
	// Start returns the first state.
	Start() S
	// Steps calls emit with every step that is possible in s, and with the state that it leads to.
	Steps(s *S, emit func(Step, *S))
	// Canon rewrites s into its representative.
	Canon(s *S)
	// Believers returns how many processes believe in s that they hold the election.
	Believers(s *S, election int) int
	// Elections returns how many elections there are.
	Elections() int
	// Tell puts a step, seen from the state that it starts in, into words.
	Tell(s *S, step Step) string
	// Show puts a state into words.
	Show(s *S) string
}

// Step is one transition.
type Step struct {
	Verb     Verb
	Who      uint8    // the process, or the place among the late writes or tasks
	Election uint8    // the election that it is about
	Fair     bool     // part of a run without faults: these alone count for liveness
	Breaks   Property // what the step itself violates
	Seen     Witness  // what it shows to be reachable
}

// Property is what a state or a step may violate.
type Property uint8

const (
	// OneLeader (S1): never do two processes believe at once that they hold the same election.
	OneLeader Property = 1 + iota
	// FenceHolds (S2): the epochs that a worker accepts never fall.
	FenceHolds
	// OneGrant (S3): an epoch is granted once, and epochs grow.
	OneGrant
	// NeverStuck (L1): in a run without further faults every election can come to be held by a process that believes in
	// it.
	NeverStuck
)

// String says how the property was violated.
func (p Property) String() string {
	return [...]string{
		"nothing violated",
		"S1 violated: two processes believe at once that they lead",
		"S2 violated: a worker accepted an older epoch after a newer one",
		"S3 violated: an epoch was granted that is not above every earlier one",
		"L1 violated: an election is stuck although its holder does not believe in it",
	}[p]
}

// Result is what an exploration found.
type Result struct {
	States  int     // distinct representatives
	Steps   int     // transitions taken
	Depth   int     // the longest shortest path to a state
	Seen    Witness // everything that was shown to be reachable
	Whole   bool    // the state space was exhausted
	Failure *Failure
	Elapsed time.Duration
}

// Failure is a violation and the shortest way to it.
type Failure struct {
	Property Property
	Trace    Trace
}

// Explore visits every reachable state of m, breadth first, and stops at the first violation or after limit states.
// If the space was exhausted without one, it searches for states from which an election can never be led again.
func Explore[S comparable](m Machine[S], limit int) Result {
	began := time.Now()
	x := explorer[S]{machine: m, limit: limit, states: newSet[S]()}
	x.run()
	if x.result.Failure == nil && x.result.Whole {
		x.checkLiveness()
	}

	x.result.States = x.states.len()
	x.result.Elapsed = time.Since(began)
	return x.result
}

type explorer[S comparable] struct {
	machine Machine[S]
	limit   int
	states  *set[S]
	parent  []uint32    // of each state, on a shortest path
	fair    graph.Graph // the fault-free transitions
	result  Result
}

// run is the breadth-first search. States are numbered as they are found, so that the numbers are the queue.
func (x *explorer[S]) run() {
	s := x.machine.Start()
	x.machine.Canon(&s)
	x.states.add(&s)
	x.parent = append(x.parent, 0)

	var from uint32
	var next S
	// The closure is made once: it is called some ten times for each state.
	emit := func(step Step, t *S) {
		if x.result.Failure != nil {
			return
		}

		x.result.Steps++
		x.result.Seen |= step.Seen
		next = *t
		x.machine.Canon(&next)
		to, isNew := x.states.add(&next)
		if isNew {
			x.parent = append(x.parent, from)
		}

		if step.Fair && to != from {
			x.fair.Edge(to)
		}

		if step.Breaks != 0 {
			x.result.Failure = &Failure{step.Breaks, x.trace(from, step.Breaks)}
		} else if isNew && x.crowded(&next) {
			x.result.Failure = &Failure{OneLeader, x.trace(to, 0)}
		}
	}

	levelEnd := 1 // the number of the first state of the next level
	for ; int(from) < x.states.len(); from++ {
		if int(from) == levelEnd {
			x.result.Depth++
			levelEnd = x.states.len()
		}

		if x.result.Failure != nil || x.states.len() > x.limit {
			return
		}

		s = *x.states.at(from)
		x.machine.Steps(&s, emit)
		x.fair.EndNode()
	}

	x.result.Whole = x.result.Failure == nil
}

// crowded reports whether two processes believe that they hold the same election.
func (x *explorer[S]) crowded(s *S) bool {
	for election := range x.machine.Elections() {
		if x.machine.Believers(s, election) > 1 {
			return true
		}
	}

	return false
}

// set numbers the states that it has seen. It is an open-addressing table of numbers over states that are kept in
// chunks, so that it grows without copying them.
type set[S comparable] struct {
	seed   maphash.Seed
	table  []uint64 // hash<<32 | number+1; 0 is free
	chunks [][]S
	n      int
}

const chunk = 1 << 13

func newSet[S comparable]() *set[S] {
	return &set[S]{seed: maphash.MakeSeed(), table: make([]uint64, 1<<12)}
}

func (x *set[S]) len() int { return x.n }

func (x *set[S]) at(i uint32) *S { return &x.chunks[i/chunk][i%chunk] }

// add returns the number of s, and whether it was not in the set before.
func (x *set[S]) add(s *S) (uint32, bool) {
	hash := maphash.Comparable(x.seed, *s) & (1<<32 - 1)
	mask := uint64(len(x.table) - 1)
	bucket := hash & mask
	for ; x.table[bucket] != 0; bucket = (bucket + 1) & mask {
		if x.table[bucket]>>32 == hash {
			if i := uint32(x.table[bucket]) - 1; *x.at(i) == *s {
				return i, false
			}
		}
	}

	if x.n%chunk == 0 {
		x.chunks = append(x.chunks, make([]S, 0, chunk))
	}

	last := len(x.chunks) - 1
	x.chunks[last] = append(x.chunks[last], *s)
	x.n++
	x.table[bucket] = hash<<32 | uint64(x.n)
	if x.n > len(x.table)/2 {
		x.grow()
	}

	return uint32(x.n - 1), true
}

// grow doubles the table. The hashes are in it, so the states need not be read.
func (x *set[S]) grow() {
	old := x.table
	x.table = make([]uint64, 2*len(old))
	mask := uint64(len(x.table) - 1)
	for _, filled := range old {
		if filled == 0 {
			continue
		}

		bucket := filled >> 32 & mask
		for x.table[bucket] != 0 {
			bucket = (bucket + 1) & mask
		}

		x.table[bucket] = filled
	}
}
