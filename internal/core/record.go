package core

import (
	"time"

	"github.com/regentd/regent/driver"
)

// Outcome is what became of a request.
type Outcome uint8

// The outcomes. A read has Done, NotFound, NotSent and Unknown; a swap or a removal has Done, Conflict, NotSent and
// Unknown.
const (
	Unknown  Outcome = iota // it may have been applied, or may still be
	Done                    // a swap was applied; a read shows the record
	Conflict                // the register has moved on: the swap was not applied and never will be
	NotFound                // the register was never written, or was removed; or no election names it
	NotSent                 // the request never left this process, and never will
)

const (
	maxDuration = 24 * time.Hour // a longer lease is not one of Regent's

	maxEpoch = 1 << 62 // beyond every epoch that can be reached by counting
	maxJump  = 1 << 20 // how far beyond the highest known epoch a report is believed

	anyone = "*" // stands for every other candidate, where a successor is named
)

// notable reports whether replacing old by r is more than a renewal or a saved checkpoint. To those who watch an
// election, unlike to a store's notifications, the leader's address matters too.
func notable(r, old *driver.Record) bool { return r.Notable(*old) || r.Addr != old.Addr }

// heldBy reports whether the record is that of one term.
func heldBy(r *driver.Record, who driver.Identity, epoch uint64) bool {
	return r.Holder == who && r.Epoch == epoch
}

// ended returns the record's past with its current term added, no longer than a record may keep, in a slice of its
// own.
func ended(r *driver.Record, at time.Time, reason string) []driver.Past {
	keep := r.Past
	if len(keep) >= driver.MaxPast {
		keep = keep[len(keep)-driver.MaxPast+1:]
	}

	past := make([]driver.Past, len(keep), len(keep)+1)
	copy(past, keep)
	return append(past, driver.Past{Epoch: r.Epoch, Holder: r.Holder.ID, Began: r.Since, Ended: at, Reason: reason})
}

// endedByStore returns the past of a vacant record with a term that the store has ended by itself, as far as it is
// known who held it.
func endedByStore(r *driver.Record, last *holding, end ending) []driver.Past {
	if r.Epoch == 0 || len(r.Past) > 0 && r.Past[len(r.Past)-1].Epoch >= r.Epoch {
		return r.Past
	}

	term := *r
	if last.Epoch == r.Epoch {
		term.Holder = last.Holder
		term.Since = last.Since
	}

	return ended(&term, end.at, end.reason)
}

// vacated returns the record as its holder or a revoker leaves it. Epoch, Data, Past and Paused outlive every term.
func vacated(r *driver.Record, nonce uint64, at time.Time, reason string) driver.Record {
	return driver.Record{
		Name: r.Name, Rev: r.Rev, Epoch: r.Epoch, Nonce: nonce, Duration: r.Duration,
		Paused: r.Paused, Data: r.Data, Past: ended(r, at, reason),
	}
}

// vacatedBeat returns a member register as its holder or a revoker leaves it. It carries the end of that incarnation
// alone, so that it stays small, and so that whoever takes over knows why it ended.
func vacatedBeat(r *driver.Record, nonce uint64, at time.Time, reason string) driver.Record {
	next := vacated(r, nonce, at, reason)
	next.Past = next.Past[len(next.Past)-1:]
	next.Data = nil
	return next
}

// holderOf returns the ID of who holds a record, or held it in its epoch, if that is known and a member.
func holderOf(r *driver.Record) string {
	if !r.Vacant() && r.Duration <= maxDuration {
		return r.Holder.ID
	}

	if n := len(r.Past); r.Vacant() && n > 0 && r.Past[n-1].Epoch == r.Epoch {
		return r.Past[n-1].Holder
	}

	return ""
}
