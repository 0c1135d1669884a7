package regent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/regentd/regent/driver"
)

// Term is one unbroken holding of a seat by one member. Its Epoch is the fencing token.
type Term struct {
	Election string
	Epoch    uint64
	Since    time.Time // by the holder's wall clock

	// Incarnation is the run of the member that holds the term. It tells this term from another one with the same epoch,
	// which a store that forgets writes can bring about.
	Incarnation string

	t *term
}

// Token returns what a fence needs to know of the term.
func (t Term) Token() Token { return NewToken(t.Epoch, t.Incarnation) }

// Valid reports whether the term is still to be believed. It looks at the deadline on a clock that counts while the machine is suspended,
// not at a flag, so ask it right before anything that only the leader may do.
func (t Term) Valid() bool {
	return t.t != nil && !t.t.over.Load() && t.t.life.live(t.t.e.clock.Now())
}

// Remaining is how long the term is still to be believed unless it is renewed; 0 if it is not.
func (t Term) Remaining() time.Duration {
	if !t.Valid() {
		return 0
	}
	return t.t.life.left(t.t.e.clock.Now())
}

// Done is closed when the term has ended: it is what ends the context of its duties. A duty has that context; this is for others.
func (t Term) Done() <-chan struct{} {
	if t.t == nil {
		return nil
	}
	return t.t.ctx.Done()
}

// Fenced tells the term that whoever receives its work has refused it, having seen a higher epoch, or another term with the same one: somebody else leads, whatever this member has
// been told. The term ends, for the reason [ErrFenced], and the next claim goes beyond that epoch. It does not wait for that, so a duty may call it.
func (t Term) Fenced(newest uint64) {
	if t.t == nil || t.t.over.Load() {
		return
	}
	e := t.t.e
	e.m.Observe(t.Election, newest)
	go e.end(ErrFenced, "", t.t)
}

// Saved returns the checkpoint: what this term or an earlier one saved last, or nil. It must not be changed.
func (t Term) Saved() []byte {
	if t.t == nil {
		return nil
	}
	t.t.e.mu.Lock()
	defer t.t.e.mu.Unlock()
	return t.t.record().Data
}

// Save keeps a checkpoint of at most [driver.MaxData] bytes in the election's own record, so that only the holder of the seat can write it, and
// the next term reads it. An error other than ErrNotLeader means that the outcome is not known: it may have been saved, or may yet
// be if nothing is saved after it.
func (t Term) Save(ctx context.Context, data []byte) error {
	if len(data) > driver.MaxData {
		return fmt.Errorf("save checkpoint of %s: %d bytes, at most %d are kept", t.Election, len(data), driver.MaxData)
	}
	data = bytes.Clone(data)
	for {
		if !t.Valid() {
			return fmt.Errorf("save checkpoint of %s: %w", t.Election, ErrNotLeader)
		}
		err := protect(func() error { return t.t.save(ctx, data) }) // a driver that panics leaves the outcome unknown
		if err == nil || !errors.Is(err, errEdited) {
			return err
		}
	}
}

// save writes data on the record as it is known. errEdited says that it has moved on, and is known anew.
func (t *term) save(ctx context.Context, data []byte) error {
	e := t.e
	e.mu.Lock()
	next := t.record()
	// Since Valid was asked, the term may have ended and the record have become its successor's. Whose record it is counts
	// on the very revision that is swapped.
	if t.over.Load() || !t.holds(next) {
		e.mu.Unlock()
		return fmt.Errorf("save checkpoint of %s: %w", next.Name, ErrNotLeader)
	}
	e.mu.Unlock()

	next.Data = data
	next.Edits++ // the nonce stays: this is no heartbeat, and gives no time
	got, err := e.swap(ctx, next)
	if err == nil {
		t.saved(next, got)
		return nil
	}
	return t.settle(ctx, next, err)
}

// saved takes in the record with the new checkpoint, unless it is known better by now.
func (t *term) saved(sent, got driver.Record) {
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	switch {
	case t.beat != nil && t.beat.lease.Rev == sent.Rev:
		t.beat.lease = got
	case t.beat == nil && t.s.term == t && t.s.lease.Rev == sent.Rev:
		t.s.lease = got
		t.s.answered = t.e.moment().order // a read that was sent before shows less
	}
}

// settle reads what has become of a checkpoint whose swap failed with err.
func (t *term) settle(ctx context.Context, sent driver.Record, err error) error {
	e := t.e
	began := e.now()
	got, rerr := e.get(ctx, sent.Name)
	switch {
	case errors.Is(rerr, driver.ErrNotFound):
		got = driver.Record{Name: sent.Name}
	case rerr != nil:
		return fmt.Errorf("save checkpoint of %s: %w: %w; and read: %w", sent.Name, ErrStore, err, rerr)
	}
	if !t.holds(got) {
		// Somebody else has it, or the store has forgotten this term: the term is over, and not only for this call.
		e.received(t.s, got, nil, began)
		e.end(fmt.Errorf("%w: %s now shows %s in epoch %d", ErrLost, sent.Name, got.Holder, got.Epoch), "", t)
		return fmt.Errorf("save checkpoint of %s: %w", sent.Name, ErrNotLeader)
	}

	before := t.life.deadline.Load()
	defer func() {
		if t.beat != nil && t.life.deadline.Load() != before {
			e.lifeline(t.beat, false, false)
		}
	}()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case t.beat != nil:
		if _, lost := t.beat.shows(got); lost != nil { // a renewal that the store has forgotten: it is not held any more (rule 3)
			go e.end(lost, "", t)
			return fmt.Errorf("save checkpoint of %s: %w", sent.Name, ErrNotLeader)
		}
		t.beat.edited(got) // the next heartbeat does not meet the edit any more
	case t.s.term == t && t.s.lease.Rev == sent.Rev:
		t.s.lease = got
		t.s.answered = e.moment().order
	}
	switch {
	case bytes.Equal(got.Data, sent.Data):
		return nil
	case errors.Is(err, driver.ErrConflict) && got.Rev != sent.Rev:
		return errEdited
	}
	return fmt.Errorf("save checkpoint of %s: %w: %w", sent.Name, ErrStore, err)
}

// holds reports whether a record is this term's.
func (t *term) holds(l driver.Record) bool {
	return l.Holder == t.life.who && l.Epoch == t.public.Epoch
}

// record is the seat's record as this term last knew it. The engine's mutex is held.
func (t *term) record() driver.Record {
	if t.beat != nil {
		return t.beat.lease
	}
	return t.s.lease
}

// Why a term ended: [context.Cause] of its context is one of these, or wraps one.
var (
	ErrShutdown    = errors.New("shutdown")
	ErrReturned    = errors.New("returned")
	ErrLost        = errors.New("lost lease")
	ErrPartitioned = errors.New("partition")
	ErrHandedOff   = errors.New("handoff")
	ErrSteppedDown = errors.New("stepped down")
	ErrPaused      = errors.New("paused")
	ErrUnhealthy   = errors.New("unhealthy")
	ErrFenced      = errors.New("fenced")
	ErrPanicked    = errors.New("panic")
)

var (
	// ErrNotLeader says that this member does not lead the election, or no longer.
	ErrNotLeader = errors.New("not the leader")
	// ErrStore says that the store has failed: what wraps it is no fault of a duty.
	ErrStore = errors.New("store failed")
	// ErrCandidate says that this member campaigns for the election already.
	ErrCandidate = errors.New("already a candidate")
)

// Reasons as they stand in events and in a record's past.
const (
	reasonHandoff     = "handoff"
	reasonSteppedDown = "stepped down"
	reasonUnhealthy   = "unhealthy"
	reasonFenced      = "fenced"
	reasonExpired     = "expired"   // the successor, or the store itself, found the heartbeat expired
	reasonDied        = "died"      // its companion process, or the store's witness, proved its process dead
	reasonRejoined    = "rejoined"  // its member has joined anew since; whether it was restarted or had lost its lease is not known
	reasonAbandoned   = "abandoned" // a claim was applied after it had been given up
)

func reasonOf(cause error) string {
	for _, err := range []error{ErrPanicked, ErrShutdown, ErrReturned, ErrLost, ErrPartitioned, ErrHandedOff, ErrSteppedDown, ErrPaused, ErrUnhealthy, ErrFenced} {
		if errors.Is(cause, err) {
			return err.Error()
		}
	}
	return "unknown"
}
