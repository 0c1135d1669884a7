package regent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is the observer's half of the protocol: when a seat is free, and how it is claimed, adopted and given back. keep.go is the
// other half, round.go says when to look.

// sight is a heartbeat register in the eyes of somebody else.
type sight struct {
	lease driver.Record
	seen  bool

	renewed bool // it was seen to change in the hands of this holder

	former driver.Past // how the last holder but this one ended, as far as that is known

	since time.Duration // when this heartbeat was first received: after the answer, never before (rule 2)
	began moment        // when the newest read of it was sent
	asked bool          // whether its process lives, since that read
	gone  bool          // that process is proved dead
	moved uint64        // the moment at which a swap had shown that the store no longer has this record; 0 if none has
	retry retry         // after it could not be read
}

// moment is a time and its place among all moments of an engine, since two may have the same time.
type moment struct {
	at    time.Duration
	order uint64
}

// moment returns the present one. The engine's mutex is held.
func (e *engine) moment() moment {
	e.order++
	return moment{e.clock.Now(), e.order}
}

// see takes in a read that was sent at began and answered at received. A read that was sent before the newest one may be
// older, and says nothing. Nor does one that was sent before a swap had shown that the record has moved, if it still shows it.
//
// An edit of the record, by which somebody asks something of its holder, proves nothing of the holder's life and gives no
// time. It keeps the nonce and adds to the number of edits. Any other change of the revision counts from now on: a
// heartbeat, but also a record that comes back after the store has lost writes. A revocation is conditional on the revision
// in any case.
func (s *sight) see(l driver.Record, began moment, received time.Duration) {
	known := s.seen && l.Rev == s.lease.Rev
	if s.seen && began.order < s.began.order || known && began.order < s.moved {
		return
	}
	if s.seen && l.Holder != s.lease.Holder {
		s.former = s.endedBefore(l, received)
	}
	same := known && s.moved == 0
	edited := s.seen && l.Holder == s.lease.Holder && l.Nonce == s.lease.Nonce && l.Edits > s.lease.Edits
	if !same && !edited {
		s.renewed = s.seen && !known && l.Holder == s.lease.Holder && !l.Vacant()
		s.since = received
	}
	if !same {
		s.gone = false
	}
	s.lease = l
	s.began = began
	s.seen = true
	s.asked = false
	s.moved = 0
	s.retry = retry{}
}

// ranOut is when the heartbeat expires unless another one comes: W on the observer's own clock.
func (s *sight) ranOut() time.Duration { return later(s.since, s.lease.Duration) }

// later returns at + d, or never if that is beyond the clock. A record can carry any duration.
func later(at, d time.Duration) time.Duration {
	if d > never-at {
		return never
	}
	return at + d
}

// verdict is what an observer makes of a seat.
type verdict int

const (
	taken   verdict = iota // it is held, or might be: look again later
	expired                // its holder's heartbeat has run out, or its process is dead: revoke that, then it is free
	free                   // it may be claimed
)

// judge decides whether a seat is free, and if it is not, when to look again (rules 2, 5, 6 and 10). A holder's death is taken only from
// a read of its heartbeat that was sent after the record which names it had been received: an older one may show the register as it was
// before that holder joined.
func (e *engine) judge(s *seat, now time.Duration) (verdict, time.Duration) {
	l := s.lease
	switch {
	case !s.seen || l.Paused || e.mine(s, l.Holder):
		return taken, never
	case now < s.barred:
		return taken, s.barred
	case l.Vacant():
		return free, 0
	}
	h := e.sights[heartbeatOf(l)]
	if h == nil {
		return taken, now
	}
	if l.Via == "" && h.lease.Rev != l.Rev {
		s.stale = true // a request has shown another record: how long that one was watched says nothing of this one
		return taken, now
	}
	if !h.seen || l.Via != "" && h.began.order < s.received.order {
		return taken, max(now, h.retry.at)
	}
	if l.Via != "" && h.lease.Holder != l.Holder {
		s.foundHeld = s.foundHeld && s.seenHeld
		if e.joinForgotten(s, h.lease) {
			e.regressed(s, now, e.m.memory[s.name], fmt.Sprintf("%s does not know %s, which holds %s", l.Via, l.Holder, s.name))
			return taken, s.barred
		}
		if e.recheckJoin(s, h) {
			return taken, max(now, h.retry.at)
		}
		return free, 0
	}
	s.seenHeld = true
	s.forgotten = driver.Identity{}
	s.seenLed = s.seenLed || h.renewed
	if h.gone {
		return expired, 0
	}
	if end := later(h.ranOut(), e.cfg.TakeoverDelay); h.began.at < end {
		return taken, max(end, h.retry.at) // and read it again then
	}
	return expired, 0
}

// recheckJoin reports whether a register that had forgotten a holder must be read again: it may know the holder by now.
func (e *engine) recheckJoin(s *seat, h *sight) bool {
	return s.forgotten != (driver.Identity{}) && s.forgotten == s.lease.Holder && h.began.at < s.barred
}

// joinForgotten reports, once for each holder, that a heartbeat register has forgotten the incarnation which a seat names:
// the register counts fewer incarnations, or shows another one with the same number. That incarnation may still believe in
// a heartbeat that the store no longer has, so it is not dead yet (rule 5).
func (e *engine) joinForgotten(s *seat, heartbeat driver.Record) bool {
	holder := s.lease.Holder
	if s.forgotten == holder || slices.Contains(e.m.endings, holder) {
		return false
	}
	count := incarnationCount(holder.Incarnation)
	if heartbeat.Epoch > count || heartbeat.Epoch == count && heartbeat.Vacant() {
		return false
	}
	s.forgotten = holder
	return true
}

// heartbeatOf names the register that keeps a record alive.
func heartbeatOf(l driver.Record) string {
	if l.Via != "" {
		return l.Via
	}
	return l.Name
}

// revoke ends an incarnation whose heartbeat has run out, by making its register vacant on the very revision that was watched (rule 4):
// dead is that record, not whatever has been read since. If it has moved, its holder lives, or somebody else was first. An unknown
// outcome is no revocation: the next read tells.
func (e *engine) revoke(ctx context.Context, dead driver.Record, end ending) error {
	next := vacatedHeartbeat(dead, newNonce(), end.at, end.reason)
	sent := e.now()
	got, err := e.swap(ctx, next)
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.sightOf(dead.Name)
	if err != nil {
		h.began = moment{} // to be read anew
		return err
	}
	h.see(got, sent, e.clock.Now())
	return nil
}

// claim is one attempt to take a seat, until it is known what became of it.
type claim struct {
	nonce uint64
	epoch uint64
	sent  time.Duration
	life  *life       // the incarnation under whose heartbeat it would count, and no other (rule 1)
	ended driver.Past // the term that it ends, if its leader could not say so itself
}

// maxClaims is how many claims of unknown outcome are remembered. An older one that is applied after all runs out by itself.
const maxClaims = 8

// bid returns the record that claims a seat for this member in place of l (rules 5 and 6): the epoch grows over everything seen anywhere.
func (e *engine) bid(s *seat, l driver.Record, now time.Duration) driver.Record {
	c := claim{nonce: newNonce(), sent: now}
	next := driver.Record{
		Name: s.name, Rev: l.Rev, Addr: e.m.Addr, Epoch: max(l.Epoch, e.m.memory[s.name]) + 1, Nonce: c.nonce,
		Duration: e.cfg.LeaseDuration, Since: time.Now(), Data: l.Data, Past: l.Past,
	}
	if l.Vacant() {
		next.Past = pastByStore(l, s.lastHeld, e.endingByStore(s, l))
	} else {
		end := e.endingOf(l)
		next.Past = pastWith(l, end.at, end.reason)
	}
	if e.cfg.OwnLease {
		c.life = newLife(e.m.ID, newClaimant())
	} else {
		c.life, next.Via = e.self.life, e.self.lease.Name
	}
	next.Holder = c.life.who
	c.epoch = next.Epoch
	c.ended = e.unsaid(l, next.Past)
	s.claims = append(s.claims[max(0, len(s.claims)+1-maxClaims):], c)
	return next
}

// unsaid returns the last term of a record if its leader has died, or fallen silent, and was not a former run of this very
// process: nobody else tells of its end.
func (e *engine) unsaid(l driver.Record, past []driver.Past) driver.Past {
	if len(past) == 0 || slices.Contains(e.m.endings, l.Holder) {
		return driver.Past{}
	}
	last := past[len(past)-1]
	if last.Epoch != l.Epoch || last.Holder == "" || last.Reason != reasonExpired && last.Reason != reasonDied {
		return driver.Past{}
	}
	if last.Holder == e.m.ID && last.Epoch == e.m.ended[l.Name] {
		return driver.Past{} // a store that expires records by itself no longer says which run held it
	}
	return last
}

// claim tries to take seats that are free, each in place of its record.
func (e *engine) claim(ctx context.Context, seats []*seat, record func(*seat) driver.Record) {
	e.mu.Lock()
	now := e.moment()
	bids := make([]driver.Record, 0, len(seats))
	if e.cfg.OwnLease || e.self != nil && e.self.life.live(now.at) {
		// Whoever has withdrawn since it was chosen is not bid for: nobody would look after it. Nor is a seat of which a
		// request has shown more meanwhile (rule 5).
		seats = slices.DeleteFunc(slices.Clone(seats), func(s *seat) bool {
			return s.cand == nil || e.seats[s.name] != s || s.stale || now.at < s.barred || exhausted(record(s).Epoch)
		})
		for _, s := range seats {
			bids = append(bids, e.bid(s, record(s), now.at))
		}
	}
	e.mu.Unlock()
	for i, out := range e.swapAll(ctx, bids) {
		s := seats[i]
		switch {
		case out.Err == nil:
			e.received(s, out.Record, nil, now)
		case errors.Is(out.Err, driver.ErrConflict):
			e.forget(s, bids[i].Nonce)
			e.calm(conflictWait)
			e.reread(s)
		default: // unknown: the register tells, now or later
			e.calm(e.failureWait())
			e.reread(s)
		}
	}
}

// mine reports whether a holder is this member: in the incarnation that lives now, in a claim that it made, or in a term
// that has ended and could not be released.
func (e *engine) mine(s *seat, who driver.Identity) bool {
	return who.ID == e.m.ID && (e.self != nil && e.self.life.who == who || s.unreleased == who ||
		slices.ContainsFunc(s.claims, func(c claim) bool { return c.life.who == who }))
}

// own settles a seat whose record names this member although it does not hold it: the answer to its claim was lost, or its release was.
// A claim that is known, was not released and still lives is adopted. Anything else is given back at once, since nobody else could ever
// claim it while this member's heartbeat goes on (rule 6).
func (e *engine) own(s *seat) {
	e.mu.Lock()
	l := s.lease
	k := slices.IndexFunc(s.claims, func(c claim) bool { return c.nonce == l.Nonce && c.life.who == l.Holder })
	if s.term != nil || l.Vacant() || !e.mine(s, l.Holder) {
		e.mu.Unlock()
		return
	}
	if k >= 0 && s.cand != nil && !e.closed {
		c := s.claims[k]
		if e.cfg.OwnLease {
			c.life.believe(c.sent + trust(l.Duration, e.cfg.StopTimeout))
		}
		if c.life.live(e.clock.Now()) {
			s.claims = nil
			t := e.beginLocked(s, c)
			e.obey(s) // a request may have been made before the answer to the claim was received
			e.mu.Unlock()
			e.start(t)
			return
		}
		if e.cfg.OwnLease { // the member's own incarnation is not this seat's to end
			c.life.end(ErrPartitioned)
		}
	}
	e.mu.Unlock()
	e.giveBack(s, l, "", reasonAbandoned)
}

// giveBack vacates a seat's record, if it still names the same holder (rules 4 and 7), and names a successor. Before it is sent the claims
// on it are forgotten, so that they are never believed again whatever a read shows (rule 3).
func (e *engine) giveBack(s *seat, l driver.Record, next, reason string) bool {
	e.mu.Lock()
	s.claims = slices.DeleteFunc(s.claims, func(c claim) bool { return c.life.who == l.Holder && c.nonce == l.Nonce })
	e.mu.Unlock()
	sent := e.now()
	end, known := e.m.endOf(l.Holder)
	same := func(got driver.Record) bool { return got.Holder == l.Holder && got.Epoch == l.Epoch }
	got, ok := e.vacate(l, same, func(l driver.Record) driver.Record {
		if !known {
			end = ending{reason, time.Now()}
		}
		l = vacated(l, newNonce(), end.at, end.reason)
		l.Next = next
		return l
	})
	if ok {
		e.received(s, got, nil, sent)
	}
	return ok
}

// vacate swaps a record for what vacant makes of it, as long as it is the caller's: never anybody else's, nor that of a
// later term (rule 4). It reports whether the record is known to be the caller's no longer, and what it shows.
func (e *engine) vacate(l driver.Record, mine func(driver.Record) bool, vacant func(driver.Record) driver.Record) (driver.Record, bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), e.patience)
	defer cancel()
	for range 4 {
		got, err := e.swap(ctx, vacant(l))
		if err == nil {
			return got, true
		}
		if got, err = e.get(ctx, l.Name); err != nil {
			return driver.Record{}, errors.Is(err, driver.ErrNotFound)
		}
		if !mine(got) {
			return got, true
		}
		l = got
	}
	return driver.Record{}, false
}

// received takes in what the store says of an election, by a request that was sent at began: it notices a store that has gone back
// (rule 5), a new leader, and its own name.
func (e *engine) received(s *seat, l driver.Record, err error, began moment) {
	e.mu.Lock()
	if s.seen && began.order < s.answered {
		s.stale = true // it may be older than what is known
		e.mu.Unlock()
		e.kick()
		return
	}
	if errors.Is(err, driver.ErrNotFound) {
		l = driver.Record{Name: s.name}
	}
	highest := e.m.memory[s.name]
	if l.Epoch < highest && began.order <= s.learned || l.Epoch < s.shown && began.order <= s.shownAt {
		// It was sent before the higher epoch was learned, so it may be older. Then nothing may be claimed on it either.
		s.stale = true
		e.mu.Unlock()
		e.kick()
		return
	}
	now := e.moment()
	if e.wentBack(s, l, highest) {
		s.barredFor = highest
		what := fmt.Sprintf("%s shows epoch %d, but epoch %d was seen before", s.name, l.Epoch, max(highest, s.lease.Epoch))
		if l.Epoch == s.lastHeld.Epoch {
			what = fmt.Sprintf("%s shows that %s had epoch %d, but %s was seen to hold it", s.name, holderOf(l), l.Epoch, s.lastHeld.Holder.ID)
			s.lastHeld.Holder = driver.Identity{ID: holderOf(l)} // else the same record would bar the seat at every read
		}
		e.regressed(s, now.at, highest, what)
	}
	e.reportExhausted(s, l)
	previous := s.lease
	if !l.Vacant() && l.Duration <= maxDuration { // else it is held by somebody who does not use Regent
		s.lastHeld = driver.Record{Holder: l.Holder, Epoch: l.Epoch, Since: l.Since}
	}
	if !s.seen || l.Rev != previous.Rev {
		s.received = now
		s.standBack = 0
	}
	if !s.seen {
		s.foundHeld = !l.Vacant()
		e.notify(s)
	}
	s.lease = l
	s.shown = l.Epoch
	s.seen = true
	s.answered = now.order
	s.stale = false
	s.claimed = false
	s.checkAt = 0
	if s.cand != nil && l.Next == e.m.ID && e.followed(s) {
		s.checkAt = now.at + e.reservation()/3 // the others hold back for this member no longer than the reservation
	}
	s.retry = retry{}
	e.dropClaims(s)
	if l.Via == "" { // a vacant one too: should a rollback bring the holder back, it counts anew
		e.sightOf(l.Name).see(l, began, now.at)
	}
	e.noteLeader(s, previous)
	t := s.term
	held := t != nil && t.holds(l)
	if held {
		e.obey(s)
	}
	e.dismiss(s)
	e.mu.Unlock()
	switch {
	case t == nil:
		e.own(s)
	case !held:
		e.end(fmt.Errorf("%w: %s now shows %s in epoch %d", ErrLost, s.name, l.Holder, l.Epoch), "", t)
	}
}

// wentBack reports whether a record shows that the store has lost writes: an epoch below the highest one ever seen, which
// counts once, or below the one of the record before, which counts each time: whoever held that one may still believe. The
// record before is the last that any request of this member was shown, not only those that keep up with the election.
func (e *engine) wentBack(s *seat, l driver.Record, highest uint64) bool {
	if l.Epoch < s.shown {
		return true
	}
	if l.Epoch == s.lastHeld.Epoch && holderOf(l) != "" && holderOf(l) != s.lastHeld.Holder.ID {
		return true // two terms had one epoch
	}
	return l.Epoch < highest && s.barredFor < highest
}

// holderOf returns who holds a record, or held it in its epoch, if that is known and a member.
func holderOf(l driver.Record) string {
	if !l.Vacant() && l.Duration <= maxDuration {
		return l.Holder.ID
	}
	if n := len(l.Past); l.Vacant() && n > 0 && l.Past[n-1].Epoch == l.Epoch {
		return l.Past[n-1].Holder
	}
	return ""
}

// dropClaims forgets claims that cannot come true any more: under an incarnation that has ended, or on a record that has
// moved on to another holder. Should a store that forgets bring one back, it is not adopted but released (rule 6).
func (e *engine) dropClaims(s *seat) {
	l := s.lease
	s.claims = slices.DeleteFunc(s.claims, func(c claim) bool {
		if !e.cfg.OwnLease && c.life.hasEnded() {
			return true
		}
		passed := !l.Vacant() && l.Holder != c.life.who && l.Epoch >= c.epoch
		if passed && e.cfg.OwnLease {
			s.unreleased = c.life.who
		}
		return passed
	})
}

// regressed bars a seat after the store has come back with less than it had: whoever held it may hold it still, without
// having noticed, so its heartbeat is given its full time (rule 5).
func (e *engine) regressed(s *seat, now time.Duration, highest uint64, what string) {
	s.barred = max(s.barred, now+max(e.cfg.LeaseDuration, min(s.lease.Duration, maxDuration)))
	e.emit(Event{Kind: EventStoreRegressed, Election: s.name, Epoch: highest,
		Metadata: map[string]string{"error": what + ": the store has lost writes (a failover, a flush, a restored backup?); this member claims the election after one lease"}})
}

// reportExhausted reports, once, a record whose epoch no term can follow: the election stays without a leader until somebody
// removes it.
func (e *engine) reportExhausted(s *seat, l driver.Record) {
	if exhausted(l.Epoch) && !s.exhausted {
		e.emit(Event{Kind: EventRegisterUnreadable, Election: s.name, Metadata: map[string]string{"register": s.name,
			"error": fmt.Sprintf("epoch %d: no counting of terms can reach it, so something else than a member has written it; "+
				"nobody can claim the election until the register is removed from the store", l.Epoch)}})
	}
	s.exhausted = exhausted(l.Epoch)
}

// felt takes in what the store says of a heartbeat register.
func (e *engine) felt(name string, l driver.Record, err error, began moment) {
	if errors.Is(err, driver.ErrNotFound) {
		l = driver.Record{Name: name}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sightOf(name).see(l, began, e.clock.Now())
}
