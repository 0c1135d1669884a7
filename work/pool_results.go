package work

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/regentd/regent"
)

// listener is what the read loop knows.
type listener struct {
	*link
	q       question
	begins  bool            // the worker's session is not known in full yet
	running map[string]bool // what it had when the session began, less what was told since
	asked   uint64          // the number of the question that told so
}

// readLoop asks for results: once to begin with, and then as long as there is something to hear.
func (l *link) readLoop() {
	s := listener{link: l, begins: true}
	s.q = question{Election: l.p.term.Election, Leader: l.p.opts.Leader, Epoch: l.p.term.Epoch, Term: l.p.term.Incarnation}
	var answer bytes.Buffer
	pause := firstPause
	for s.await() {
		sent := time.Now()
		number := s.sets()
		// However long it took to be heard: what ended since before this term began.
		s.q.RecallMs = (l.p.opts.Recall + time.Since(l.p.made)).Milliseconds()
		body, _ := json.Marshal(s.q) // it holds nothing that JSON cannot hold
		wait := time.Duration(s.q.WaitMs) * time.Millisecond
		var r report
		code, err := l.post(l.ctx, wait+sendFor, "/results", body, &answer, r.parse, &r)
		if err == nil {
			err = l.absurd(code, regent.Token{Epoch: r.Epoch})
		}
		switch {
		case l.ctx.Err() != nil || err == nil && l.beaten(code, regent.Token{Epoch: r.Epoch, Term: r.Term}):
			return
		case err == nil && (code != http.StatusOK || r.Session == ""):
			err = fmt.Errorf("answered %d: %s", code, r.Error)
		}
		l.mu.Lock()
		l.failing = err
		l.mu.Unlock()
		if err == nil {
			s.hear(&r, number)
		}
		l.heard()
		if err == nil {
			// A worker that has nothing to tell, and does not wait either, is not asked all the time.
			if len(r.Results) > 0 || r.Running != nil || wait == 0 || time.Since(sent) >= wait/2 {
				pause = firstPause
				continue
			}
		}
		if !sleep(l.ctx, pause) {
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// await waits until there is something to ask for, and says in the question how long for.
func (s *listener) await() bool {
	for s.ctx.Err() == nil {
		s.mu.Lock()
		failing, waits := s.failing != nil, len(s.parcels) > 0 || len(s.awaited) > 0
		s.mu.Unlock()
		switch {
		case s.begins, failing: // whether it answers again is of interest to those who look for a worker
			s.q.WaitMs = 0
			return true
		case waits:
			s.q.WaitMs = askFor.Milliseconds()
			return true
		}
		select {
		case <-s.readable:
		case <-s.ctx.Done():
		}
	}
	return false
}

// sets is called when a question sets out.
func (s *listener) sets() (number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doubt {
		s.doubt = false
		s.q.Session, s.q.After = "", 0
	}
	s.link.asked++
	return s.link.asked
}

// hear takes in a report.
func (s *listener) hear(r *report, number uint64) {
	if r.Running != nil || r.Session != s.q.Session {
		s.begins, s.asked = true, number
		if s.q.Session != "" {
			s.mu.Lock()
			clear(s.told)
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
	if s.begins && !r.More {
		s.begins = false
		s.begun()
		s.running = nil
	}
}

// begun follows the beginning of a worker's session: what it had taken before, and does not know any more, is lost.
func (s *listener) begun() {
	var lost []*parcel
	l := s.link
	l.mu.Lock()
	l.ready, l.session, l.awaited = true, s.q.Session, map[string]bool{}
	still := make([]string, 0, len(s.running))
	for id := range s.running {
		still = append(still, id)
		l.awaited[id] = true
	}
	for id, c := range l.parcels {
		switch {
		case c.session == "" || s.running[id]:
		case c.asked < s.asked: // it should have been among them
			delete(l.parcels, id)
			lost = append(lost, c)
		case c.session != l.session:
			l.doubt = true
		}
	}
	l.mu.Unlock()
	for _, c := range lost {
		l.end(c, Result{}, ErrForgotten)
	}
	if l.p.opts.Ready != nil {
		l.turn.Lock()
		defer l.turn.Unlock()
		l.p.opts.Ready(l.id, still)
	}
}

// deliver passes results on, and takes them out of what runs.
func (l *link) deliver(results []outcome, running map[string]bool) {
	for i := range results {
		o := &results[i]
		l.mu.Lock()
		c := l.parcels[o.ID]
		delete(l.parcels, o.ID)
		delete(l.awaited, o.ID)
		told := l.told[o.ID]
		delete(l.told, o.ID)
		l.mu.Unlock()
		delete(running, o.ID)
		switch {
		case c != nil:
			l.end(c, o.result(), nil)
		case !told && l.p.opts.Found != nil:
			l.turn.Lock()
			l.p.opts.Found(l.id, o.result())
			l.turn.Unlock()
		}
	}
}
