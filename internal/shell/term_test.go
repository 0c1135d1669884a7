package shell

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent/internal/core"
)

// A term whose lease ends while somebody asks for the time that is left has at most its own time left, and then none.
func TestRemainingWhileTheLeaseEnds(t *testing.T) {
	s := &Shell{clock: wallClock{time.Now()}}
	for i := range 5000 {
		l := newLease(core.Begin{Deadline: s.now().Add(time.Minute)})
		term := &Term{shell: s, lease: l}
		term.ctx, term.cancel = context.WithCancelCause(t.Context())
		l.attach(term)

		var wg sync.WaitGroup
		var most time.Duration
		started := make(chan struct{})
		wg.Go(func() {
			close(started)
			for range 200 {
				left := term.Remaining()
				most = max(most, left)
				if left == 0 {
					return
				}
			}
		})
		<-started
		for range i % 50 {
			_ = s.now()
		}
		l.end(errBroken)
		wg.Wait()
		if most > time.Hour {
			t.Fatalf("after %d ends: a term of a minute has %v left", i, most)
		}
		if term.Valid() || context.Cause(term.ctx) != errBroken {
			t.Fatalf("the term is valid after its end: %v, %v", term.Valid(), context.Cause(term.ctx))
		}
	}
}

// A lease that has ended is not renewed, and a term that is attached to it ends at once.
func TestALeaseEndsForGood(t *testing.T) {
	s := &Shell{clock: wallClock{time.Now()}}
	l := newLease(core.Begin{Deadline: s.now().Add(time.Minute)})
	equal(t, "it ends", l.end(errBroken), true)
	equal(t, "it ends again", l.end(nil), false)
	l.renew(s.now().Add(time.Hour), s.now().Add(time.Hour))

	term := &Term{shell: s, lease: l}
	term.ctx, term.cancel = context.WithCancelCause(t.Context())
	l.attach(term)
	equal(t, "valid", term.Valid(), false)
	equal(t, "cause", context.Cause(term.ctx), errBroken)
}

// The end of a lease ends all its terms, except those that were detached.
func TestALeaseEndsAllItsTerms(t *testing.T) {
	for detached := range 3 {
		l := newLease(core.Begin{Deadline: core.Never})
		var terms []*Term
		add := func() {
			term := &Term{lease: l}
			term.ctx, term.cancel = context.WithCancelCause(t.Context())
			l.attach(term)
			terms = append(terms, term)
		}

		for range 3 {
			add()
		}
		l.detach(terms[detached])
		add()
		l.end(errBroken)

		for i, term := range terms {
			equal(t, "the term has ended", term.ctx.Err() != nil, i != detached)
		}
	}
}
