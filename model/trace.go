package model

import (
	"fmt"
	"slices"
	"strings"
)

// Trace is a run of the protocol, one line for each step.
type Trace []Line

// Line is one step of a trace.
type Line struct {
	Time  int    // ticks since the beginning
	Step  string // what happened
	State string // what it led to
}

// String returns the trace as a table.
func (t Trace) String() string {
	var b strings.Builder
	width := 0
	for _, l := range t {
		width = max(width, len(l.Step))
	}

	for i, l := range t {
		fmt.Fprintf(&b, "%3d  t=%-2d  %-*s  %s\n", i, l.Time, width, l.Step, l.State)
	}

	return b.String()
}

// String returns the violated property and the trace.
func (f *Failure) String() string {
	return fmt.Sprintf("%s, after %d steps\n%s", f.Property, len(f.Trace)-1, f.Trace)
}

// trace replays the shortest path to a state. The explorer knows only representatives, in which numbers start over
// again and again; the replay takes the plain steps between them, so that revisions, incarnations and epochs read as
// they would in a store's log. If breaks is given, one more step is taken: the first that violates it.
func (x *explorer[S]) trace(to uint32, breaks Property) Trace {
	path := []uint32{to}
	for to != 0 {
		to = x.parent[to]
		path = append(path, to)
	}

	slices.Reverse(path)

	r := replay[S]{machine: x.machine, state: x.machine.Start()}
	r.trace = Trace{{Step: "the beginning", State: x.machine.Show(&r.state)}}
	for _, i := range path[1:] {
		r.take(func(_ Step, after *S) bool { return r.canon(after) == *x.states.at(i) })
	}

	if breaks != 0 {
		r.take(func(step Step, _ *S) bool { return step.Breaks == breaks })
	}

	return r.trace
}

// replay is a run through plain states.
type replay[S comparable] struct {
	machine Machine[S]
	state   S
	time    int
	trace   Trace
}

func (r *replay[S]) canon(s *S) S {
	c := *s
	r.machine.Canon(&c)
	return c
}

// take takes the first step that is accepted. In a representative refusals have been taken in already; in a plain
// state the process may have to learn of one first.
func (r *replay[S]) take(accept func(Step, *S) bool) {
	for !r.first(accept) {
		here := r.canon(&r.state)
		if !r.first(func(step Step, after *S) bool {
			return (step.Verb == Apply || step.Verb == Answer) && r.canon(after) == here
		}) {
			panic("model: a representative has a step that its plain state does not have: Canon is wrong")
		}
	}
}

func (r *replay[S]) first(accept func(Step, *S) bool) (found bool) {
	before := r.state
	r.machine.Steps(&before, func(step Step, after *S) {
		if found || !accept(step, after) {
			return
		}

		found = true
		if step.Verb == Tick {
			r.time++
		}

		r.state = *after
		r.trace = append(r.trace, Line{r.time, r.machine.Tell(&before, step), r.machine.Show(after)})
	})

	return found
}

var requestNames = [...]string{
	Read: "read of the election", Claim: "claim", Renew: "renewal", Release: "release", Join: "join", Leave: "leave",
	Revoke: "revocation", ReadSelf: "read of its register", ReadHolder: "read of the register in its way",
}

// tell puts the step of a process into words, c being what it waits for.
func tell(v Verb, c call) string {
	name := requestNames[c.verb]
	switch v {
	case Read:
		return "reads the election"
	case ReadSelf:
		return "reads its register"
	case ReadHolder:
		return "reads the register in its way"
	case Apply:
		if !c.verb.isRead() {
			return "'s " + name + " reaches the store"
		}

		return "'s " + name + " is served"
	case Answer:
		if c.verb.isRead() {
			return "learns from its " + name
		}

		if c.ok {
			return "learns that its " + name + " was applied"
		}

		return "learns that its " + name + " was refused"
	case LoseAnswer:
		return "never gets the answer to its " + name
	case LoseRequest:
		return "loses its " + name + " on the way"
	case GiveUp:
		return "gives up on its " + name + ", still on its way"
	case Crash:
		return "crashes and restarts without memory"
	case CrashLate:
		return "crashes and restarts, its " + name + " still on its way"
	case End:
		return "ends its incarnation"
	case Dispatch:
		return "sends a task"
	}

	return "sends a " + requestNames[v]
}

// line puts the words of tell behind the name of the process.
func line(i uint8, words string) string {
	if strings.HasPrefix(words, "'") {
		return fmt.Sprintf("p%d%s", i, words)
	}

	return fmt.Sprintf("p%d %s", i, words)
}
