package work

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/regentd/regent"
)

// resultReader is the state of the loop that asks a worker for results.
type resultReader struct {
	*link
	q        query
	starting bool // not all pages of the first report have arrived
	// Tasks that the worker had when its session started, without those that have ended since.
	running      map[string]bool
	runningQuery uint64 // the number of the query that was answered with running
}

// resultLoop asks for results: once at the start, then as long as a task is pending.
func (l *link) resultLoop() {
	s := resultReader{link: l, starting: true}
	s.q = query{Election: l.p.term.Election, Leader: l.p.opts.Leader, Epoch: l.p.term.Epoch, Term: l.p.term.Incarnation}
	var answer bytes.Buffer
	pause := firstBackoff
	for s.awaitWork() {
		sent := time.Now()
		number := s.nextQuery()

		// However long it took to reach the worker: what ended since before this term began.
		s.q.RecallMs = (l.p.opts.Recall + time.Since(l.p.created)).Milliseconds()
		body, _ := json.Marshal(s.q) // it has no field that JSON cannot represent
		wait := time.Duration(s.q.WaitMs) * time.Millisecond
		var r report
		code, err := l.post(l.ctx, wait+requestTimeout, "/results", body, &answer, r.parse, &r)
		if err == nil {
			err = l.checkEpoch(code, regent.Token{Epoch: r.Epoch})
		}

		switch {
		case l.ctx.Err() != nil || err == nil && l.superseded(code, regent.Token{Epoch: r.Epoch, Term: r.Term}):
			return
		case err == nil && (code != http.StatusOK || r.Session == ""):
			err = fmt.Errorf("answered %d: %s", code, r.Error)
		}

		l.mu.Lock()
		l.failing = err
		l.mu.Unlock()

		if err == nil {
			s.applyReport(&r, number)
		}

		l.cancelIfDrained()
		if err == nil {
			// A worker that has no results, and answers before the wait is over, is asked after a backoff.
			if len(r.Results) > 0 || r.Running != nil || wait == 0 || time.Since(sent) >= wait/2 {
				pause = firstBackoff
				continue
			}
		}

		if !sleep(l.ctx, pause) {
			return
		}

		pause = min(2*pause, lastBackoff)
	}
}

// awaitWork returns when there is something to ask for, and sets how long the worker may wait.
func (s *resultReader) awaitWork() bool {
	for s.ctx.Err() == nil {
		s.mu.Lock()
		failing, waits := s.failing != nil, len(s.pending) > 0 || len(s.awaited) > 0
		s.mu.Unlock()

		switch {
		// Those who choose a worker need to know whether it answers again.
		case s.starting, failing:
			s.q.WaitMs = 0
			return true
		case waits:
			s.q.WaitMs = longPoll.Milliseconds()
			return true
		}

		select {
		case <-s.readable:
		case <-s.ctx.Done():
		}
	}

	return false
}

// nextQuery returns the number of the query that is sent next.
func (s *resultReader) nextQuery() (number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.resync {
		s.resync = false
		s.q.Session, s.q.After = "", 0
	}
	s.link.queries++
	return s.link.queries
}

// applyReport processes a report.
func (s *resultReader) applyReport(r *report, number uint64) {
	if r.Running != nil || r.Session != s.q.Session {
		s.starting, s.runningQuery = true, number
		if s.q.Session != "" {
			s.mu.Lock()
			clear(s.delivered)
			s.mu.Unlock()
		}

		s.running = make(map[string]bool, len(r.Running))
		for _, id := range r.Running {
			s.running[id] = true
		}
	}

	s.deliver(r.Results, s.running)
	s.q.Session, s.q.After = r.Session, r.Next

	s.mu.Lock()
	s.after = r.Next
	s.mu.Unlock()

	if s.starting && !r.More {
		s.starting = false
		s.sessionStarted()
		s.running = nil
	}
}

// sessionStarted runs when the first report of a session is complete. A task that was taken before and is not in it is
// lost.
func (s *resultReader) sessionStarted() {
	var lost []*pendingTask
	l := s.link

	l.mu.Lock()
	l.ready = true
	l.session = s.q.Session
	l.awaited = map[string]bool{}
	still := make([]string, 0, len(s.running))
	for id := range s.running {
		still = append(still, id)
		l.awaited[id] = true
	}

	for id, c := range l.pending {
		switch {
		case c.session == "" || s.running[id]:
		case c.queries < s.runningQuery: // it should be in running
			delete(l.pending, id)
			lost = append(lost, c)
		case c.session != l.session:
			l.resync = true
		}
	}
	l.mu.Unlock()

	for _, c := range lost {
		l.complete(c, Result{}, ErrForgotten)
	}

	if l.p.opts.Ready != nil {
		l.callbacks.Lock()
		defer l.callbacks.Unlock()
		l.p.opts.Ready(l.id, still)
	}
}

// deliver passes results to their senders, and removes them from running.
func (l *link) deliver(results []wireResult, running map[string]bool) {
	for i := range results {
		o := &results[i]
		l.mu.Lock()
		c := l.pending[o.ID]
		delete(l.pending, o.ID)
		delete(l.awaited, o.ID)
		delivered := l.delivered[o.ID]
		delete(l.delivered, o.ID)
		l.mu.Unlock()

		delete(running, o.ID)
		switch {
		case c != nil:
			l.complete(c, o.result(), nil)
		case !delivered && l.p.opts.Found != nil:
			l.callbacks.Lock()
			l.p.opts.Found(l.id, o.result())
			l.callbacks.Unlock()
		}
	}
}

// complete calls the sender's function with the result. The task is no longer pending, so it is called once.
func (l *link) complete(c *pendingTask, r Result, why error) {
	if why != nil {
		why = fmt.Errorf("worker %s: %w", l.id, why)
	}
	l.callbacks.Lock()
	defer l.callbacks.Unlock()

	c.done(r, why)
}
