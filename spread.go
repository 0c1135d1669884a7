package regent

import (
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

// This file keeps the members of a fleet out of step. Start-up jitter spreads their first requests. What they do later is
// triggered by moments that all of them share: the end of the jitter window, and notifications. So with start-up jitter
// configured each member has a phase of its own, chosen once, and does what can wait at that phase. Heartbeats, renewals,
// takeovers and releases do not wait.

// spreads reports whether this member is one of a fleet.
func (e *engine) spreads() bool { return e.cfg.StartupJitterMax > 0 }

// spread is the time over which a fleet spreads what all its members do after a shared moment.
func (e *engine) spread() time.Duration {
	return min(e.cfg.StartupJitterMax, e.cfg.ElectionInterval) * 3 / 5
}

// phaseOf returns this member's share of a duration.
func (e *engine) phaseOf(d time.Duration) time.Duration { return time.Duration(e.phase * float64(d)) }

// untilPhase returns how long to wait for the next of a series of moments that are d apart. It is d itself, unless the
// member is one of a fleet: then the series has the member's phase, and the first wait may be shorter.
func (e *engine) untilPhase(now, d time.Duration) time.Duration {
	if !e.spreads() || d <= 0 {
		return d
	}
	past := (now - e.phaseOf(d)) % d
	if past < 0 {
		past += d
	}
	return d - past
}

// coldStartEnd returns until when a candidate with a smaller ID may still be waiting for its jitter, if all of them were
// started at once; 0 where the rank does not ask for the smallest. It does not depend on what the store holds: a fleet that
// is started again over a used store waits as well. Where their hosts have died, so that nothing was released, each member
// has to wait for its own last lease before it joins: the wait begins when the seat of a leader that was never seen alive
// has become free.
func (e *engine) coldStartEnd(s *seat) time.Duration {
	if e.cfg.Rank != RankLexicographic || e.again {
		return 0
	}
	began := e.started
	if s != nil && s.foundHeld && !s.seenLed {
		began = max(began, s.openSince)
	}
	return began + e.cfg.StartupJitterMax + min(e.reservation(), time.Second)
}

// turn is when, after the cold start, this member lists the others to learn whether its ID is the smallest. Whoever was
// notified of a smaller one comes after all those who were not: by then the election is most likely held.
func (e *engine) turn() time.Duration {
	wait := e.phaseOf(e.spread())
	if e.outranked {
		wait += e.spread()
	}
	return wait
}

// firstLook returns how long a member that has joined waits before it subscribes and reads its elections. It never waits
// beyond the cold start, before which it could not claim anything.
func (e *engine) firstLook() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	end := e.coldStartEnd(nil)
	left := min(end-e.clock.Now(), e.spread()/3) // short, since it hears of nobody who joins meanwhile
	if !e.spreads() || left <= 0 || !e.joins() {
		return 0
	}
	return e.phaseOf(left)
}

// memberChanged takes in a notification about a member's register, and reports whether heartbeats are to be read: it names
// one that an election depends on, or nothing.
func (e *engine) memberChanged(l driver.Record) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.Name == "" {
		return true
	}
	id := strings.TrimPrefix(l.Name, driver.MemberPrefix)
	e.outranked = e.outranked || e.cfg.Rank == RankLexicographic && id < e.m.ID
	for _, s := range e.seats {
		if e.followed(s) && heartbeatOf(s.lease) == l.Name {
			return true
		}
	}
	return !e.spreads()
}

// claimed notes that a vacant election has changed: most likely somebody holds it now. Members of a fleet do not all read
// it at that moment, but each at its next poll. It reports false where the election has to be read at once: l, which the
// notification brought, shows it vacant again, or names this member as the next.
func (e *engine) claimed(s *seat, l driver.Record) bool {
	if l.Rev != "" && l.Vacant() || l.Next == e.m.ID {
		return false
	}
	if !e.spreads() || s.term != nil || s.stale || !s.seen || !s.lease.Vacant() || s.lease.Paused {
		return false
	}
	now := e.clock.Now()
	s.claimed = true
	e.pollAt = min(e.pollAt, now+e.untilPhase(now, e.cfg.ElectionInterval))
	return true
}

// standBack has a member of a fleet that has found a better candidate list the members again only after a while, however
// many of them join meanwhile.
func (e *engine) standBack(s *seat, until time.Duration) {
	if !e.spreads() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.standBack = until
}
