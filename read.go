package regent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is when an engine reads which registers. What the answers mean is decided in follow.go.

const (
	many       = 16                    // from how many registers on it is cheaper to list them than to get each
	sweepBatch = 1000                  // how many held elections are read at once
	echoWait   = 20 * time.Millisecond // after a claim, until a notification about it is no longer taken for its own
)

// retry is when to read a register again that could not be read. One such register holds up nothing but the elections that
// depend on it.
type retry struct {
	failed int           // how often in a row
	since  time.Duration // the first of these
	at     time.Duration // not before

	reported bool
}

func (r *retry) fail(now, wait time.Duration) {
	if r.failed == 0 {
		r.since = now
	}
	r.failed++
	r.at = now + wait
}

// unreadable is how many failures in a row are reported, if the store answers otherwise.
const unreadable = 3

// readSeats reads the elections whose time has come, and reports whether the store answered, if it was asked. Those of other
// holders are read periodically and on a notification; those that this member holds when somebody has asked something of
// it, and by the sweep. A record that is known to be old is always read.
func (e *engine) readSeats(notified bool) bool {
	e.mu.Lock()
	now := e.clock.Now()
	due := notified || now >= e.pollAt
	var names []string
	for name, s := range e.seats {
		switch {
		case now < s.retry.at:
		case s.stale || !s.seen, s.term == nil && due, s.term != nil && e.dirty, s.checkAt != 0 && s.checkAt <= now:
			names = append(names, name)
		}
	}
	if due {
		e.pollAt = now + e.pollInterval()
		e.quiet++
	}
	e.dirty = false
	names = append(names, e.sweepLocked(now)...)
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names {
		s := e.seats[name]
		s.checkAt = 0
		if s.term == nil {
			s.stale = true // until the answer is there
		}
	}
	e.mu.Unlock()
	return e.read(names)
}

// readBeats reads the heartbeats that others' seats depend on: those never read since the seat's record was received, those
// that are due, and all of them on a notification. It reports whether the store answered, if it was asked.
func (e *engine) readBeats(notified bool) bool {
	e.mu.Lock()
	now := e.clock.Now()
	var names []string
	listed := map[string]bool{}
	for _, s := range e.seats {
		if !e.followed(s) {
			continue
		}
		name := heartbeatOf(s.lease)
		h := e.sightOf(name)
		old := s.lease.Via != "" && h.began.order < s.received.order || now >= s.barred && e.recheckJoin(s, h)
		if listed[name] || now < h.retry.at || !(notified || !h.seen || old || now >= e.dueAt(h)) {
			continue
		}
		listed[name] = true
		names = append(names, name)
	}
	e.mu.Unlock()

	slices.Sort(names)
	return e.read(names)
}

// read fetches registers and takes in what they show. It reports false if the store answered for none of them, and has not
// answered anything else since the first of them failed.
func (e *engine) read(names []string) bool {
	if len(names) == 0 {
		return true
	}
	answered := false
	for part := range slices.Chunk(names, batch) {
		began := e.now()
		failed := 0
		for i, out := range e.fetch(part) {
			if out.Err != nil && !errors.Is(out.Err, driver.ErrNotFound) {
				failed++
				e.unread(part[i], out.Err)
				continue
			}
			e.takeIn(part[i], out.Record, out.Err, began)
		}
		answered = answered || failed < len(part)
		if failed == len(part) && len(part) < len(names) {
			break // the store does not answer: the rest is read in a later round
		}
	}
	if answered {
		return true
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(names, func(name string) bool {
		r := e.retryOf(name)
		return r.failed > 1 && e.answered >= r.since
	})
}

// fetch reads registers, in the way that is cheapest on this store.
func (e *engine) fetch(names []string) []driver.Outcome {
	switch {
	case len(names) == 1:
		l, err := e.get(e.ctx, names[0])
		return []driver.Outcome{{Record: l, Err: err}}
	case e.refresher != nil:
		return e.refresh(names)
	case len(names) <= many:
		return e.getAll(names)
	}
	return e.listAll(names)
}

// refresh reads registers with one request. Those that have not changed cost no transfer of their records.
func (e *engine) refresh(names []string) []driver.Outcome {
	known := make([]driver.Record, len(names))
	e.mu.Lock()
	for i, name := range names {
		known[i] = e.knownLocked(name)
	}
	e.mu.Unlock()

	ctx, cancel := context.WithTimeout(e.ctx, e.patience)
	defer cancel()
	began := e.now()
	got := e.refresher.Refresh(ctx, known)
	out := make([]driver.Outcome, len(names))
	for i, name := range names {
		out[i] = driver.Outcome{Err: errNotRefreshed} // unless there is one for this very register
		if i < len(got) && (got[i].Err != nil || got[i].Record.Name == name) {
			out[i] = got[i]
		}
		e.heard(name, out[i].Record, out[i].Err, began)
	}
	return out
}

var errNotRefreshed = errors.New("the store's batched read gave no answer for this register")

// knownLocked is the record of a register as it was last received.
func (e *engine) knownLocked(name string) driver.Record {
	if s := e.seats[name]; s != nil {
		if s.lease.Rev != "" {
			return s.lease
		}
	} else if h := e.sights[name]; h != nil && h.lease.Rev != "" {
		return h.lease
	}
	return driver.Record{Name: name}
}

// getAll reads a few registers side by side, so that a store that hangs costs one timeout and not one for each.
func (e *engine) getAll(names []string) []driver.Outcome {
	out := make([]driver.Outcome, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			out[i].Err = protect(func() (err error) {
				out[i].Record, err = e.get(e.ctx, name)
				return err
			})
		})
	}
	wg.Wait()
	return out
}

// listAll reads registers by their common prefix. A name that the list does not show was never written.
func (e *engine) listAll(names []string) []driver.Outcome {
	out := make([]driver.Outcome, len(names))
	found, broken, err := e.list(commonPrefix(names))
	for i, name := range names {
		l, ok := found[name]
		switch {
		case err != nil:
			out[i].Err = err
		case broken[name] != nil:
			out[i].Err = broken[name]
		case !ok:
			out[i].Err = driver.ErrNotFound
		default:
			out[i].Record = l
		}
	}
	return out
}

// takeIn passes on what a register shows: of an election, or of a heartbeat.
func (e *engine) takeIn(name string, l driver.Record, err error, began moment) {
	e.mu.Lock()
	s := e.seats[name]
	e.mu.Unlock()
	if s != nil {
		e.received(s, l, err, began)
	} else {
		e.felt(name, l, err, began)
	}
}

// unread notes that a register could not be read. It is read again after a while, which grows.
func (e *engine) unread(name string, err error) {
	e.mu.Lock()
	now := e.clock.Now()
	r := e.retryOf(name)
	wait := e.failureWait()
	if r.failed > 0 && e.answered >= r.since { // the store answers otherwise: it is this register
		wait = min(wait<<min(r.failed, 3), e.cfg.ElectionInterval)
	}
	r.fail(now, wait)
	if s := e.seats[name]; s != nil {
		s.stale = true
		if h := e.sights[name]; h != nil {
			h.retry = *r // it is its own heartbeat register, and not due as such any sooner
		}
	}
	report := r.failed >= unreadable && e.answered >= r.since && !r.reported
	r.reported = r.reported || report
	e.mu.Unlock()

	if report {
		e.emit(Event{Kind: EventRegisterUnreadable, Metadata: map[string]string{"register": name, "error": err.Error()}})
	}
}

// retryOf returns what is known of failures to read a register. The engine's mutex is held.
func (e *engine) retryOf(name string) *retry {
	if s := e.seats[name]; s != nil {
		return &s.retry
	}
	return &e.sightOf(name).retry
}

// nextRead is when the next retry, check or sweep is due; polls and heartbeats are not among them. The engine's mutex is held.
func (e *engine) nextRead() time.Duration {
	next := never
	held := false
	for _, s := range e.seats {
		if s.stale && s.retry.at != 0 {
			next = min(next, s.retry.at)
		}
		if s.checkAt != 0 {
			next = min(next, max(s.checkAt, s.retry.at))
		}
		held = held || s.term != nil && s.term.beat == nil
	}
	if !held {
		e.sweepAt = never
	}
	return min(next, e.sweepAt)
}

// sweepInterval is how often each held election is read, if there are no more than one batch of them. A store that has
// lost a claim, but not the member's heartbeat, is noticed by that: within a lease, with the time of a request.
func (e *engine) sweepInterval() time.Duration { return e.cfg.LeaseDuration / 2 }

// sweepLocked returns the next held elections to be read, if their time has come: at most one batch at a heartbeat. Seats
// with leases of their own need no sweep: their renewals are conditional on the record itself.
func (e *engine) sweepLocked(now time.Duration) []string {
	if now < e.sweepAt {
		return nil
	}
	var held []string
	for name, s := range e.seats {
		if s.term != nil && s.term.beat == nil {
			held = append(held, name)
		}
	}
	if len(held) == 0 {
		e.sweepAt = never
		return nil
	}
	slices.Sort(held)
	batches := time.Duration((len(held) + sweepBatch - 1) / sweepBatch)
	e.sweptAt = now
	e.sweepAt = now + e.sweepInterval()
	if batches > 1 {
		e.sweepAt = now + max(e.sweepInterval()/batches, e.cfg.HeartbeatInterval)
	}

	from, _ := slices.BinarySearch(held, e.sweepFrom)
	if from == len(held) {
		from = 0
	}
	to := min(from+sweepBatch, len(held))
	e.sweepFrom = ""
	if to < len(held) {
		e.sweepFrom = held[to]
	}
	return held[from:to]
}

// sweepSoon has the held elections read without waiting for their turn: notifications may have been lost, or the server
// may be another one. However often that is asked for, it happens no more often than once a heartbeat.
func (e *engine) sweepSoon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sweepAt != never {
		e.sweepAt = min(e.sweepAt, e.sweptAt+e.cfg.HeartbeatInterval)
	}
}

// changed has an election read that a notification names. One that this member holds is read too, unless the notification
// brings what is known already; one about this member's own claim is given time to pass.
func (e *engine) changed(l driver.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.seats[l.Name]
	switch {
	case s == nil || s.seen && l.Rev != "" && l.Rev == s.lease.Rev:
	case e.claimed(s, l):
	case s.term == nil:
		s.stale = true
	default:
		s.checkAt = max(e.clock.Now(), s.received.at+echoWait)
	}
}

// list returns all registers below a prefix, and those that cannot be read. The store has the time of one request for each
// step: a long list may take longer than one request may.
func (e *engine) list(prefix string) (found map[string]driver.Record, broken map[string]error, err error) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	limit := time.AfterFunc(e.patience, cancel)
	defer limit.Stop()

	began := e.now()
	found = map[string]driver.Record{}
	broken = map[string]error{}
	for l, err := range e.store.List(ctx, prefix) {
		limit.Reset(e.patience)
		switch {
		case err == nil:
			e.heard(l.Name, l, nil, began)
			found[l.Name] = l
		case l.Name != "":
			broken[l.Name] = err
		default:
			return nil, nil, err
		}
	}
	return found, broken, nil
}

func commonPrefix(names []string) string {
	if len(names) == 0 {
		return ""
	}
	first := slices.Min(names)
	last := slices.Max(names)
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	return strings.ToValidUTF8(first[:n], "")
}
