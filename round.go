package regent

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

// follow looks at all elections of the member, round after round. Between rounds it sleeps until the next time that something could
// have changed, and a hint only shortens that (rule 12).
func (e *engine) follow() {
	if !e.sleep(e.ctx, e.firstLook()) {
		return
	}
	hints := e.subscribe()
	defer func() { hints.stop() }()
	defer e.m.stats.loopDue.Store(0)
	var news []driver.Record // notifications about elections, at most two
	var beats bool
	for e.ctx.Err() == nil {
		// A round asks the store a few times, each within its timeout; a few more are given to those with very many seats.
		e.m.stats.loopDue.Store(int64(e.clock.Now() + 8*e.patience))
		anything := hints.renew() // before it reads, so that no change falls in between
		anything = e.notified(news) || anything
		next := e.round(anything, beats)
		news = news[:0]
		beats = false

		wait := max(next-e.clock.Now(), minWait)
		e.m.stats.loopDue.Store(int64(e.clock.Now() + wait + time.Second))
		t := e.clock.NewTimer(wait)
		select {
		case <-t.C:
		case <-e.kicked:
		case l := <-hints.seats:
			news = append(news, l)
		case l := <-hints.members:
			beats = e.memberChanged(l)
		case <-e.ctx.Done():
		}
		t.Stop()

		// What has piled up during the last round is dealt with in one.
		select {
		case l := <-hints.seats:
			news = append(news, l)
		default:
		}
		select {
		case l := <-hints.members:
			beats = e.memberChanged(l) || beats
		default:
		}
		took(e.kicked)
	}
}

// notified deals with notifications about elections: each is claimed or read. It reports whether anything may have changed,
// because one of them named nothing.
func (e *engine) notified(news []driver.Record) (anything bool) {
	for _, l := range news {
		switch {
		case l.Name == "":
			anything = true
			e.sweepSoon()
		case !e.hear(l):
			e.changed(l)
		}
	}
	return anything
}

func took[T any](hint <-chan T) bool {
	select {
	case <-hint:
		return true
	default:
		return false
	}
}

// hear claims a seat on the vacant record that a hint brought, without a look at it, and reports whether it did. It does so if somebody else has let go of the
// seat in the very term that is known to be the last, and if nobody is to be waited for. A hint proves nothing: that the record stands is proved by the swap, on its
// revision. Until then nobody is told of it, and if it is not true all that follows is a look.
func (e *engine) hear(l driver.Record) bool {
	now := e.clock.Now()
	if now < e.calmUntil || e.cfg.Rank != RankFirst || !e.mayLead() {
		return false
	}
	if l.Rev == "" {
		return false
	}
	e.mu.Lock()
	s := e.seats[l.Name]
	news := s != nil && s.cand != nil && !s.stale && e.followed(s) && l.Vacant() && !l.Paused && l.Epoch == e.m.memory[l.Name] &&
		(l.Next == "" || l.Next == anyone || l.Next == e.m.ID)
	if news {
		at, _ := e.notBefore(s, l)
		news = at <= now
	}
	e.mu.Unlock()
	if news {
		e.claim(e.ctx, []*seat{s}, func(*seat) driver.Record { return l })
	}
	return news
}

// round reads what is due, judges every seat, and acts. It returns when to look again.
func (e *engine) round(seats, beats bool) time.Duration {
	next := never
	answered := e.readSeats(seats)
	if !e.readBeats(beats) || !answered {
		e.calm(e.failureWait())
		next = e.calmUntil // and then it is read again
	}
	e.askWitness()
	for range 2 { // a revoked heartbeat frees seats at once
		open, dead, again := e.judgeAll()
		next = min(next, again)
		if e.clock.Now() < e.calmUntil {
			if len(open)+len(dead) > 0 {
				next = min(next, e.calmUntil)
			}
			break
		}
		chosen, again := e.choose(open)
		next = min(next, again)
		e.claim(e.ctx, chosen, func(s *seat) driver.Record { return s.lease })
		if len(dead) == 0 {
			break
		}
		dead, again = e.revocable(dead) // who may not lead leaves revoking to those who may
		next = min(next, again)
		if len(dead) == 0 {
			break
		}
		if !e.revokeAll(dead) {
			next = min(next, max(e.calmUntil, e.clock.Now()))
			break
		}
	}
	next = min(next, e.attend())
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(min(next, e.pollAt, e.nextBeat(), e.nextRead()), e.calmUntil)
}

// calm holds claims and revocations back for a while, hints or not.
func (e *engine) calm(d time.Duration) { e.calmUntil = max(e.calmUntil, e.clock.Now()+d) }

// conflictWait comes after somebody else was first: they have changed what is known, so it is short.
const conflictWait = 20 * time.Millisecond

// failureWait comes after the store has failed.
func (e *engine) failureWait() time.Duration { return min(e.cfg.ElectionInterval, time.Second) }

// pollInterval is how long to wait for the next poll. It doubles while nothing changes, up to its maximum.
func (e *engine) pollInterval() time.Duration {
	d := e.cfg.ElectionInterval
	for range e.quiet {
		if d > e.cfg.ElectionIntervalMax/2 {
			d = e.cfg.ElectionIntervalMax
			break
		}
		d *= 2
	}
	return e.untilPhase(e.clock.Now(), d)
}

// askWitness asks the store, if it can tell, whether the processes behind the heartbeats that were just read are dead.
func (e *engine) askWitness() {
	if e.witness == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.seats {
		h := e.sights[heartbeatOf(s.lease)]
		if h == nil || h.asked || !e.followed(s) {
			continue
		}
		l := h.lease
		h.asked = true
		e.mu.Unlock()
		gone := e.gone(e.ctx, l)
		e.mu.Lock()
		h.gone = gone && h.lease.Rev == l.Rev
	}
}

// followed reports whether somebody else seems to hold the seat, so that its heartbeat matters.
func (e *engine) followed(s *seat) bool {
	return s.term == nil && !s.lease.Vacant() && !e.mine(s, s.lease.Holder)
}

// dueAt is when a heartbeat should be read again: when it would have expired, and three times in a lease. By that it is
// known well how old it is. And of the heartbeats that a store loses, those that nobody had read are few: their holder
// meets the loss with its next one, before anybody can take them for expired.
func (e *engine) dueAt(h *sight) time.Duration {
	end := later(h.ranOut(), e.cfg.TakeoverDelay)
	if h.lease.Vacant() || h.began.at >= end {
		return never
	}
	end = min(later(h.began.at, e.untilPhase(h.began.at, h.lease.Duration/3)), end)
	return max(end, h.retry.at)
}

// nextBeat is when the first heartbeat is due. The engine's mutex is held.
func (e *engine) nextBeat() time.Duration {
	next := never
	for _, s := range e.seats {
		if h := e.sights[heartbeatOf(s.lease)]; h != nil && e.followed(s) {
			next = min(next, e.dueAt(h))
		}
	}
	return next
}

// judgeAll sorts the seats that nobody here holds: those that are free, and the heartbeats that must be revoked first to free others.
func (e *engine) judgeAll() (open []*seat, dead []driver.Record, again time.Duration) {
	again = never
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	for _, s := range e.seats {
		if s.term != nil || s.stale || s.claimed {
			continue
		}
		v, at := e.judge(s, now)
		if v == expired && s.lease.Via == "" {
			v = free
		}
		switch v {
		case taken:
			s.open = false
			again = min(again, at)
		case expired:
			l := e.sights[s.lease.Via].lease
			if !slices.ContainsFunc(dead, func(d driver.Record) bool { return d.Name == l.Name }) {
				dead = append(dead, l)
			}
		case free:
			if !s.open {
				s.open, s.openSince = true, now
			}
			open = append(open, s)
		}
	}
	slices.SortFunc(dead, func(a, b driver.Record) int { return strings.Compare(a.Name, b.Name) })
	return open, dead, again
}

// revokeAll revokes heartbeats that have run out, and reports whether it could any.
func (e *engine) revokeAll(dead []driver.Record) bool {
	done := false
	for _, l := range dead {
		e.mu.Lock()
		end := e.sightOf(l.Name).ending(e.clock.Now())
		e.mu.Unlock()
		switch err := e.revoke(e.ctx, l, end); {
		case err == nil:
			done = true
		case errors.Is(err, driver.ErrConflict):
			e.calm(conflictWait)
		default:
			e.calm(e.failureWait())
		}
	}
	return done
}

// revocable returns those of the expired heartbeats that the member may revoke; if it leaves some to others, when to ask again.
func (e *engine) revocable(dead []driver.Record) (may []driver.Record, again time.Duration) {
	if e.mayLead() {
		return dead, never
	}
	if !e.lastResort() {
		return nil, never
	}

	again = e.clock.Now() + e.cfg.HeartbeatInterval
	live, known := e.roster.recent(e)
	if !known {
		return nil, again
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range dead {
		if !e.hasSuccessor(l.Name, live) {
			may = append(may, l)
		}
	}
	return may, again
}

// hasSuccessor reports whether somebody else who is healthy runs for an election that depends on a heartbeat: they revoke it.
// The engine's mutex is held.
func (e *engine) hasSuccessor(heartbeat string, live []MemberInfo) bool {
	for _, s := range e.seats {
		if s.lease.Via == heartbeat && e.followed(s) && e.successor(s.name, live) != "" {
			return true
		}
	}
	return false
}

// lastResort reports whether a duty that keeps failing is all that keeps the member from leading. Then it leads if nobody
// healthy is there: a leader whose duty fails is better than none. A member whose own health check fails never does.
func (e *engine) lastResort() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cfg.Eligible && e.sick == nil && len(e.m.ailing) > 0 && (e.cfg.OwnLease || e.self != nil && e.self.life.live(e.clock.Now()))
}

func (e *engine) mayLead() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cfg.Eligible && e.ill() == nil && (e.cfg.OwnLease || e.self != nil && e.self.life.live(e.clock.Now()))
}
