package work

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/signed"
)

// batchBytes is the size from which a request is not filled any further. Even if all its names are escaped it stays below maxBody.
const batchBytes = 1 << 20

// contact is what is known of a request that has no answer.
type contact int

const (
	unknown   contact = iota // a transport that does not tell
	dialing                  // there was no connection yet: nobody can have read it
	connected                // it may have reached the worker
)

// sendLoop sends what is in the outbox, if there is enough. What comes while a request is under way goes with the next.
func (l *link) sendLoop(enough int, sendable <-chan struct{}) {
	var reached contact
	ctx := httptrace.WithClientTrace(l.ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			if reached == unknown { // else it is a second try
				reached = dialing
			}
		},
		GotConn: func(httptrace.GotConnInfo) { reached = connected },
	})
	var body []byte
	var answer bytes.Buffer
	pause := firstPause
	for {
		parcels, session := l.pack(enough)
		if len(parcels) == 0 {
			select {
			case <-sendable:
				continue
			case <-l.ctx.Done():
				return
			}
		}
		if !l.p.term.Valid() { // nobody believes it any more, and neither does it
			l.p.cancel(ErrEnded)
			return
		}
		body = appendBatch(body[:0], l.p.term.Election, l.p.opts.Leader, l.p.term.Token(), time.Now())
		for _, c := range parcels {
			if !c.tried {
				c.first = session
				body = appendItem(body, &c.task, "")
			} else {
				body = appendItem(body, &c.task, c.first)
			}
		}
		body = append(body, endBatch...)
		reached = unknown
		var v verdict
		code, err := l.post(ctx, sendFor, "", body, &answer, v.parse, &v)
		refused := errors.Is(err, signed.ErrOld)
		if err == nil {
			err = l.absurd(code, regent.Token{Epoch: v.Epoch})
			refused = err != nil
		}
		switch {
		case l.ctx.Err() != nil || err == nil && l.beaten(code, regent.Token{Epoch: v.Epoch, Term: v.Term}):
			return
		case l.settle(parcels, code, &v, err, reached != dialing && !refused):
			pause = firstPause
			continue
		case !sleep(l.ctx, pause):
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// pack takes a batch out of the outbox.
func (l *link) pack(enough int) (parcels []*parcel, session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.outbox) < enough {
		return nil, ""
	}
	n, size := 0, 0
	for n < len(l.outbox) && n < l.p.opts.Batch && size < batchBytes {
		t := &l.outbox[n].task
		size += 128 + 6*(len(t.ID)+len(t.Kind)) + len(t.Payload)
		n++
	}
	parcels = l.outbox[:n:n]
	if l.outbox = l.outbox[n:]; len(l.outbox) == 0 {
		l.outbox = nil
	}
	return parcels, l.session
}

// settle takes in how a batch was answered, and reports whether the next one may follow at once. maybe says that it may have reached the worker even
// if there was no answer.
func (l *link) settle(parcels []*parcel, code int, v *verdict, err error, maybe bool) bool {
	if err == nil {
		err, maybe = verdictError(code, v)
	}
	refused := make(map[string]string, len(v.Refused))
	ended := make(map[string]*outcome, len(v.Results))
	if err == nil {
		for _, r := range v.Refused {
			refused[r.ID] = r.Why
		}
		for i := range v.Results {
			ended[v.Results[i].ID] = &v.Results[i]
		}
	}
	var lost []*parcel
	again := false
	l.mu.Lock()
	l.failing = err
	for _, c := range parcels {
		why := refused[c.task.ID]
		switch o := ended[c.task.ID]; {
		case l.parcels[c.task.ID] != c: // its result has come already
			delete(ended, c.task.ID)
		case o != nil:
			delete(l.parcels, c.task.ID)
			if o.Number > l.after { // it will come that way, too
				l.told[c.task.ID] = true
			}
		case err != nil && (maybe || c.tried) || why == whyAgain: // it may be there: asked again, which does no harm
			again = again || err != nil
			c.tried = true
			l.outbox = append(l.outbox, c)
			wake(l.sendable) // they may be too few for the loop that had them
		case err != nil || why != "":
			if why == whyBusy {
				l.busy = time.Now().Add(busyFor)
			}
			delete(l.parcels, c.task.ID)
			lost = append(lost, c)
		default:
			c.tried, c.session, c.asked = true, v.Session, l.asked
			l.doubt = l.doubt || l.session != "" && l.session != v.Session
		}
	}
	l.mu.Unlock()
	for _, c := range lost {
		if err != nil {
			l.end(c, Result{}, fmt.Errorf("%w: %w", ErrUnreachable, err))
		} else {
			l.end(c, Result{}, refusalError(refused[c.task.ID]))
		}
	}
	for _, c := range parcels {
		if o := ended[c.task.ID]; o != nil {
			l.end(c, o.result(), nil)
		}
	}
	wake(l.readable)
	return !again
}

// verdictError says what is wrong with an answer, and whether tasks may have been taken all the same: something between here and the worker that
// gives up waiting, say, knows as little as if there had been no answer.
func verdictError(code int, v *verdict) (err error, maybe bool) {
	switch {
	case v.Session != "" && (code == http.StatusOK || len(v.Refused) > 0):
		return nil, false
	case code == http.StatusOK:
		return errors.New("what answers is no worker"), true
	}
	return fmt.Errorf("answered %d: %s", code, v.Error), v.Session == "" && code >= 500
}

func refusalError(why string) error {
	switch why {
	case whyBusy:
		return ErrBusy
	case whyKind:
		return ErrUnknownKind
	case whyStopping:
		return ErrStopping
	case whyForgotten:
		return ErrForgotten
	}
	return errors.New("refused: " + why)
}
