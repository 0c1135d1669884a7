package model

import "fmt"

// This file is what both machines have in common: requests that are lost or come late, and tasks on their way.

// lateRequests are requests on their way that nobody waits for any more.
type lateRequests [2]request

// add keeps a request on its way, if there is room.
func (l *lateRequests) add(r request, room int) bool {
	for k := range room {
		if l[k].verb == idle {
			l[k] = r
			return true
		}
	}

	return false
}

// emitLoss emits how the outcome of the call of process i stays unknown in t: the answer is lost, or the request, or
// the process gives it up and it comes late.
func emitLoss[S any](t *S, i int, c call, delay func(request) bool, emit func(Step, *S)) {
	if c.done {
		emit(Step{Verb: LoseAnswer, Who: uint8(i)}, t)
		return
	}

	emit(Step{Verb: LoseRequest, Who: uint8(i)}, t)
	if delay(c.request) {
		emit(Step{Verb: GiveUp, Who: uint8(i)}, t)
	}
}

// applyLate lets requests arrive that nobody waits for any more.
func applyLate[S any](
	s *S, late func(*S) *lateRequests, swap func(*S, request) (bool, Property, Witness), emit func(Step, *S),
) {
	for k, r := range late(s) {
		if r.verb == idle {
			continue
		}

		t := *s
		late(&t)[k] = request{}
		ok, breaks, seen := swap(&t, r)
		if ok {
			seen |= AppliedLate
		}

		emit(Step{Verb: ApplyLate, Who: uint8(k), Breaks: breaks, Seen: seen}, &t)
	}
}

// deliverTasks lets tasks arrive at the worker, in any order.
func deliverTasks[S any](s *S, of func(*S) *worker, fenced bool, emit func(Step, *S)) {
	for i, epoch := range of(s).tasks {
		if epoch != 0 {
			t := *s
			breaks, seen := of(&t).deliver(i, fenced)
			emit(Step{Verb: Deliver, Who: uint8(i), Breaks: breaks, Seen: seen}, &t)
		}
	}
}

// tellNetwork puts a step into words that is no process's; the text is empty for one that is.
func tellNetwork(step Step, w *worker, late *lateRequests) string {
	switch step.Verb {
	case Tick:
		return "a tick passes"
	case Deliver:
		return fmt.Sprintf("a task of epoch %d arrives", w.tasks[step.Who])
	case ApplyLate:
		return "a late " + requestNames[late[step.Who].verb] + " reaches the store"
	}

	return ""
}
