package regent

import "time"

// This file is about how the term before another one ended, as the record's past tells it.

// Before tells how the term before another one ended.
type Before struct {
	Leader string        // who held it; empty if nobody did, or that is not known
	Reason Reason        // why it ended; [ReasonFirst] if there was none, [ReasonForgotten] if that is not known
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
	b := Before{Leader: last.Holder, Reason: Reason(last.Reason), Ended: last.Ended, Vacant: -1}
	if held && !v.Since.IsZero() && !last.Ended.IsZero() {
		b.Vacant = max(0, v.Since.Sub(last.Ended)) // the clocks of two machines may differ
	}
	return b
}
