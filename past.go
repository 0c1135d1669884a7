package regent

import (
	"cmp"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is about how terms that have ended stand in a record.

// Before is how the term before another one ended.
type Before struct {
	Leader string        // who held it; empty if nobody did, or that is not known
	Reason Reason        // why it ended; [ReasonFirst] if there was none, [ReasonForgotten] if that is not known
	Ended  time.Time     // by the wall clock of whoever ended it; zero if not known
	Vacant time.Duration // how long nobody led after it, by two wall clocks; -1 if not known, or nobody leads yet
}

// Before returns how the term before the current one ended. If nobody leads, it returns how the last term ended: also
// if its leader is still in the record, which nobody has taken over yet.
func (v View) Before() Before {
	if v.Expired {
		return Before{Leader: v.Leader, Reason: cmp.Or(v.Reason, ReasonExpired), Vacant: -1}
	}

	n := len(v.Past)
	held := v.Leader != ""
	if n == 0 || held && v.Past[n-1].Epoch >= v.Epoch || !held && v.Past[n-1].Epoch != v.Epoch {
		if v.Known <= v.Epoch && (v.Epoch == 0 || held && v.Epoch == 1) {
			return Before{Reason: ReasonFirst, Vacant: -1}
		}
		return Before{Reason: ReasonForgotten, Vacant: -1}
	}

	last := v.Past[n-1]
	b := Before{Leader: last.Holder, Reason: Reason(last.Reason), Ended: last.Ended, Vacant: -1}
	if held && !v.Since.IsZero() && !last.Ended.IsZero() {
		b.Vacant = max(0, v.Since.Sub(last.Ended)) // the clocks of two machines may differ
	}
	return b
}

// pastWith returns the past of a record with its current term added, at most driver.MaxPast terms long. It is a new
// slice.
func pastWith(l driver.Record, at time.Time, reason string) []driver.Past {
	keep := l.Past
	if len(keep) >= driver.MaxPast {
		keep = keep[len(keep)-driver.MaxPast+1:]
	}

	past := make([]driver.Past, len(keep), len(keep)+1)
	copy(past, keep)
	return append(past, driver.Past{Epoch: l.Epoch, Holder: l.Holder.ID, Began: l.Since, Ended: at, Reason: reason})
}

// vacated returns the record that replaces l when its term has ended. Epoch, Data, Past and Paused outlive every term.
func vacated(l driver.Record, nonce uint64, at time.Time, reason string) driver.Record {
	return driver.Record{
		Name: l.Name, Rev: l.Rev, Epoch: l.Epoch, Nonce: nonce, Duration: l.Duration,
		Paused: l.Paused, Data: l.Data, Past: pastWith(l, at, reason),
	}
}

// vacatedHeartbeat is vacated for a heartbeat register. The record has the end of the last incarnation alone: so it
// stays small, and whoever takes over knows why that incarnation ended.
func vacatedHeartbeat(l driver.Record, nonce uint64, at time.Time, reason string) driver.Record {
	next := vacated(l, nonce, at, reason)
	next.Past = next.Past[len(next.Past)-1:]
	next.Data = nil
	return next
}
