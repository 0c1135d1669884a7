package regent

import (
	"time"

	"github.com/regentd/regent/driver"
)

// This file is about why a term ended, as its successor writes it into the record's past. What people are told comes
// from there, so it must be true: a death that was proved is no expiry.

// ReasonFirst stands for the end of a previous term where there was none: nobody has led before.
const ReasonFirst = "first"

// ReasonForgotten stands for it where there was one, of which the store knows nothing any more.
const ReasonForgotten = "forgotten"

// ending is how the holding of a register ended, and when, by the wall clock of whoever saw it.
type ending struct {
	reason string
	at     time.Time
}

// ending returns how a heartbeat ended that has expired, or whose process is proved dead.
func (s *sight) ending(now time.Duration) ending {
	if s.gone {
		return ending{reasonDied, time.Now()}
	}
	return ending{reasonExpired, time.Now().Add(-max(0, now-s.ranOut()))}
}

// endedBefore returns how the holder before that of l ended, where l was received in place of what was seen last. A
// register that was vacated, and the first heartbeat of an incarnation, say it. Otherwise it is known only if the
// heartbeat had expired by then: one that was replaced sooner ended at a moment that nobody here knows.
func (s *sight) endedBefore(l driver.Record, received time.Duration) driver.Past {
	if n := len(l.Past); n > 0 && l.Past[n-1].Epoch >= s.lease.Epoch {
		return l.Past[n-1]
	}
	if s.lease.Vacant() {
		return s.former
	}
	p := driver.Past{Epoch: s.lease.Epoch, Holder: s.lease.Holder.ID, Reason: reasonRejoined}
	if l.Vacant() {
		p.Reason = reasonExpired // by the store itself
	}
	if l.Vacant() || received >= s.ranOut() {
		p.Ended = time.Now().Add(-max(0, received-s.ranOut()))
	}
	return p
}

// endingOf returns how the term of a record ended that is free to claim: from this process's own memory, if the term was
// its own, and else from what is known of its heartbeat. When it ended is left out if it is not known. The engine's mutex
// is held.
func (e *engine) endingOf(l driver.Record) ending {
	if end, known := e.m.endOfLocked(l.Holder); known {
		return end
	}
	h := e.sights[heartbeatOf(l)]
	switch {
	case h == nil || !h.seen:
		return ending{reason: reasonExpired}
	case l.Via == "" || h.lease.Holder == l.Holder:
		return h.ending(e.clock.Now())
	}
	count := incarnationCount(l.Holder.Incarnation)
	if n := len(h.lease.Past); n > 0 && h.lease.Past[n-1].Epoch == count {
		return ending{h.lease.Past[n-1].Reason, h.lease.Past[n-1].Ended}
	}
	if h.former.Epoch == count && h.former.Holder == l.Holder.ID {
		return ending{h.former.Reason, h.former.Ended}
	}
	if !h.lease.Vacant() {
		return ending{reason: reasonRejoined}
	}
	return ending{reason: reasonExpired} // by the store itself
}

// endingByStore returns how the term of a vacant record ended that does not say so: the store has found it expired. The
// engine's mutex is held.
func (e *engine) endingByStore(s *seat, l driver.Record) ending {
	if s.lastHeld.Epoch == l.Epoch {
		if end, known := e.m.endOfLocked(s.lastHeld.Holder); known {
			return end
		}
	}
	if h := e.sights[l.Name]; h != nil && h.former.Epoch == l.Epoch {
		return ending{reasonExpired, h.former.Ended}
	}
	return ending{reason: reasonExpired}
}

// lifeEnd is how a life of this process ended.
type lifeEnd struct {
	who driver.Identity
	ending
}

// maxEnds is how many of them are remembered: more than can still show up in a store.
const maxEnds = 64

// noteEnd remembers how a life ended: at its deadline at the latest, even where the process noticed that later.
func (e *engine) noteEnd(l *life) {
	l.mu.Lock()
	end := lifeEnd{l.who, ending{reasonOf(l.cause), l.at}}
	until := l.until
	l.mu.Unlock()
	if deadline := time.Now().Add(until - e.clock.Now()); deadline.Before(end.at) {
		end.at = deadline
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.m.endOfLocked(l.who); !known {
		e.m.ends = append(e.m.ends[max(0, len(e.m.ends)-maxEnds+1):], end)
	}
}

// endOf returns how a life of this process ended, and whether it was one that has.
func (m *Member) endOf(who driver.Identity) (ending, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.endOfLocked(who)
}

func (m *Member) endOfLocked(who driver.Identity) (ending, bool) {
	for _, end := range m.ends {
		if end.who == who {
			return end.ending, true
		}
	}
	return ending{}, false
}

// pastOf returns what the first heartbeat of an incarnation tells of the one before, whose record it replaces.
func (m *Member) pastOf(l driver.Record) []driver.Past {
	if end, known := m.endOf(l.Holder); known {
		return pastWith(driver.Record{Epoch: l.Epoch, Holder: l.Holder, Since: l.Since}, end.at, end.reason)
	}
	return l.Past // it was vacated; or this process failed to join as that one, which has done nothing
}

// Before tells how the term before another one ended.
type Before struct {
	Leader string        // who held it; empty if nobody did, or that is not known
	Reason string        // why it ended; [ReasonFirst] if there was none, [ReasonForgotten] if that is not known
	Ended  time.Time     // by the wall clock of whoever ended it; zero if not known
	Vacant time.Duration // how long nobody led after it, by two wall clocks; -1 if not known, or nobody leads yet
}

// Before returns how the term before the current one ended; or, where nobody leads, the last one.
func (v View) Before() Before {
	n := len(v.Past)
	held := v.Leader != ""
	if n == 0 || held && v.Past[n-1].Epoch >= v.Epoch || !held && v.Past[n-1].Epoch != v.Epoch {
		if v.Known <= v.Epoch && (v.Epoch == 0 || held && v.Epoch == 1) {
			return Before{Reason: ReasonFirst, Vacant: -1}
		}
		return Before{Reason: ReasonForgotten, Vacant: -1}
	}
	last := v.Past[n-1]
	b := Before{Leader: last.Holder, Reason: last.Reason, Ended: last.Ended, Vacant: -1}
	if held && !v.Since.IsZero() && !last.Ended.IsZero() {
		b.Vacant = max(0, v.Since.Sub(last.Ended)) // the clocks of two machines may differ
	}
	return b
}
