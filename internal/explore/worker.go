package explore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/core"
)

// This file is the worker of an election: it takes tasks of the leaders, behind the fence of package regent.

// task is work on its way from a leader to the worker. Tasks may overtake one another.
type task struct {
	proc     int
	election int
	token    regent.Token
}

// taskRoom reports whether a term may send a task. A second one of the same term would tell nothing more.
func (w *world) taskRoom(k int, t *term) bool {
	return len(w.tasks) < w.setup.Tasks && !slices.ContainsFunc(w.tasks, func(one task) bool {
		return one.election == k && one.token.Epoch == t.epoch && one.token.Term == t.incarnation
	})
}

func (w *world) sendTask(i, k int) {
	t := w.procs[i].terms[k]
	w.tasks = append(w.tasks, task{i, k, regent.NewToken(t.epoch, t.incarnation)})
}

// takeTask lets a task reach the worker, and checks that the accepted epochs never fall and that each belongs to one
// term. A leader whose task is refused learns so.
func (w *world) takeTask(n int) error {
	t := w.tasks[n]
	w.tasks = slices.Delete(w.tasks, n, n+1)
	highest := &w.fences[t.election]

	var fence regent.Fence
	if highest.Epoch > 0 {
		if err := fence.Admit(*highest); err != nil {
			return fmt.Errorf("the fence of %s refuses its own %v: %w", election(t.election), *highest, err)
		}
	}

	err := fence.Admit(t.token)
	var stale *regent.StaleError
	switch {
	case errors.As(err, &stale):
		w.shows |= Refused
		return w.refused(t, highest.Epoch)
	case err != nil:
		return fmt.Errorf("the fence of %s: %w", election(t.election), err)
	case t.token.Epoch < highest.Epoch || t.token.Epoch == highest.Epoch && t.token.Term != highest.Term:
		return fmt.Errorf("the worker of %s accepts %v after %v", election(t.election), t.token, *highest)
	}

	*highest = t.token
	return nil
}

// refused tells a process that a task of its term was refused.
func (w *world) refused(t task, newest uint64) error {
	p := &w.procs[t.proc]
	if p.core == nil || p.gone || p.asleep {
		return nil
	}

	return w.step(t.proc, core.Fenced{Election: election(t.election), Epoch: t.token.Epoch, Newest: newest})
}
