package orchestrate

import (
	"fmt"
	"slices"

	"github.com/regentd/regent"
	"github.com/regentd/regent/work"
)

// workers are the workers that slots are assigned to, during one dispatch.
type workers struct {
	all     []work.WorkerView
	members map[string]regent.MemberView
	self    string // the ID of this node
	turn    *int   // which worker is considered first, so that equal ones take turns
}

func (t *term) workersLocked() *workers {
	return &workers{all: t.pool.Workers(), members: t.members, self: t.o.opts.Leader, turn: &t.turn}
}

// pick returns the worker for a slot, or nil. It prefers another node to the leader's own, since the next leader
// cannot ask this node for results if it dies; then a worker that has not tried the slot; then the worker with the
// fewest tasks.
func (ws *workers) pick(s *slot) *work.WorkerView {
	var best *work.WorkerView
	least := 0
	*ws.turn++
	for i := range ws.all {
		w := &ws.all[(i+*ws.turn)%len(ws.all)]
		if !w.Usable() || slices.Contains(s.refused, w.ID) || !ws.assigned(s, w) {
			continue
		}

		cost := 0
		if slices.Contains(s.tried, w.ID) {
			cost++
		}
		if w.ID == ws.self {
			cost += 2
		}
		if best == nil || cost < least || cost == least && w.Tasks < best.Tasks {
			best = w
			least = cost
		}
	}

	return best
}

// assigned reports whether a worker is one that the poll of a slot is assigned to.
func (ws *workers) assigned(s *slot, w *work.WorkerView) bool {
	m, known := ws.members[w.ID]
	return known && s.entry.poll.Matches(w.ID, m.Labels)
}

// problem returns why no worker takes a slot.
func (ws *workers) problem(s *slot) string {
	if len(ws.all) == 0 {
		return "there is no worker"
	}

	assigned := 0
	var usable []string
	var failed error
	for i := range ws.all {
		w := &ws.all[i]
		if !ws.assigned(s, w) {
			continue
		}
		assigned++
		if w.Usable() {
			usable = append(usable, w.ID)
		} else if w.Err != nil {
			failed = w.Err
		}
	}

	p := s.entry.poll
	able := slices.ContainsFunc(usable, func(id string) bool { return !slices.Contains(s.unable, id) })
	switch {
	case assigned == 0:
		return fmt.Sprintf("no worker matches assign (%s)", p.Assign)
	case len(usable) == 0 && failed != nil:
		return "no worker that it is assigned to can be reached: " + failed.Error()
	case len(usable) == 0:
		return "every worker that it is assigned to is busy, or was not reached yet"
	case !able && p.Assign == "any":
		return fmt.Sprintf("no worker makes %s checks", p.Kind)
	case !able:
		return fmt.Sprintf("no worker makes %s checks of those that match assign (%s)", p.Kind, p.Assign)
	}

	return "every worker has refused it"
}
