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

// endingOf returns how the term of a record ended that is free to claim, from what is known of its heartbeat. The
// engine's mutex is held.
func (e *engine) endingOf(l driver.Record) ending {
	h := e.sights[heartbeatOf(l)]
	switch {
	case h == nil || !h.seen:
		return ending{reasonExpired, time.Now()}
	case l.Via == "" || h.lease.Holder == l.Holder:
		return h.ending(e.clock.Now())
	}
	if n := len(h.lease.Past); n > 0 && h.lease.Past[n-1].Epoch == incarnationCount(l.Holder.Incarnation) {
		return ending{h.lease.Past[n-1].Reason, h.lease.Past[n-1].Ended}
	}
	if !h.lease.Vacant() {
		return ending{reasonRejoined, time.Now()}
	}
	return ending{reasonExpired, time.Now()} // by the store itself
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
		if v.Epoch == 0 || held && v.Epoch == 1 {
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
