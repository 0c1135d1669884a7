package core

import "time"

// Record is what one register holds: of an election, or of a member. Its fields mean what those of the root
// package's Lease mean; it is a type of its own so that the core imports nothing.
type Record struct {
	Name     string        // the register
	Rev      string        // its revision, opaque; empty if it was never written
	Holder   Identity      // who holds it; zero if vacant
	Addr     string        // where the holder can be reached
	Epoch    uint64        // the number of the term, or of the incarnation; never falls
	Nonce    uint64        // the write attempt that made this record the holder's, or vacant
	Edits    uint64        // how often somebody has edited the record since, without a heartbeat
	Duration time.Duration // how long the record counts without a change
	Via      string        // the heartbeat register that keeps it alive; empty for itself
	Next     string        // held: asked to hand over to; vacant: reserved for
	Paused   bool          // nobody may claim it
	Since    time.Time     // when the term began, by the holder's wall clock: for people, never compared
	Data     []byte        // an election's checkpoint, or what a member publishes about itself
	Past     []Past        // the last terms, oldest first
}

// Identity is one run of one member.
type Identity struct {
	ID          string // chosen by the user, stable over restarts
	Incarnation string // random, never reused
}

// Past is a term that has ended.
type Past struct {
	Epoch  uint64
	Holder string
	Began  time.Time
	Ended  time.Time
	Reason string
}

// Outcome is what became of a request.
type Outcome uint8

// The outcomes. A read has Done, NotFound, NotSent and Unknown; a swap has Done, Conflict, NotSent and Unknown.
const (
	Unknown  Outcome = iota // it may have been applied, or may still be
	Done                    // a swap was applied; a read shows the record
	Conflict                // the register has moved on: the swap was not applied and never will be
	NotFound                // the register was never written
	NotSent                 // the request never left this process, and never will
)

const (
	maxPast     = 32             // how many ended terms a record keeps
	maxDuration = 24 * time.Hour // a longer lease is not one of Regent's

	maxEpoch = 1 << 62 // beyond every epoch that can be reached by counting
	maxJump  = 1 << 20 // how far beyond the highest known epoch a report is believed

	anyone       = "*" // stands for every other candidate, where a successor is named
	memberPrefix = "regent/member/"
)

// MemberRegister returns the name of the register that a member rewrites at every heartbeat.
func MemberRegister(id string) string { return memberPrefix + id }

// Vacant reports whether nobody holds the record.
func (r *Record) Vacant() bool { return r.Holder == Identity{} }

// notable reports whether replacing old by r is more than a renewal or a saved checkpoint.
func (r *Record) notable(old *Record) bool {
	return r.Holder != old.Holder || r.Epoch != old.Epoch || r.Addr != old.Addr ||
		r.Next != old.Next || r.Paused != old.Paused
}

// heldBy reports whether the record is that of one term.
func (r *Record) heldBy(who Identity, epoch uint64) bool { return r.Holder == who && r.Epoch == epoch }

// ended returns the record's past with its current term added, at most maxPast terms long, in a slice of its own.
func (r *Record) ended(at time.Time, reason string) []Past {
	keep := r.Past
	if len(keep) >= maxPast {
		keep = keep[len(keep)-maxPast+1:]
	}

	past := make([]Past, len(keep), len(keep)+1)
	copy(past, keep)
	return append(past, Past{Epoch: r.Epoch, Holder: r.Holder.ID, Began: r.Since, Ended: at, Reason: reason})
}

// endedByStore returns the past of a vacant record with a term that the store has ended by itself, as far as it is
// known who held it.
func (r *Record) endedByStore(last *Record, at time.Time) []Past {
	if r.Epoch == 0 || len(r.Past) > 0 && r.Past[len(r.Past)-1].Epoch >= r.Epoch {
		return r.Past
	}

	ended := *r
	if last.Epoch == r.Epoch {
		ended.Holder = last.Holder
		ended.Since = last.Since
	}
	return ended.ended(at, ReasonExpired)
}

// vacated returns the record as its holder or a revoker leaves it. Epoch, Data, Past and Paused outlive every term.
func (r *Record) vacated(nonce uint64, at time.Time, reason string) Record {
	return Record{
		Name: r.Name, Rev: r.Rev, Epoch: r.Epoch, Nonce: nonce, Duration: r.Duration,
		Paused: r.Paused, Data: r.Data, Past: r.ended(at, reason),
	}
}

// holderOf returns the ID of who holds a record, or held it in its epoch, if that is known and a member.
func holderOf(r *Record) string {
	if !r.Vacant() && r.Duration <= maxDuration {
		return r.Holder.ID
	}
	if n := len(r.Past); r.Vacant() && n > 0 && r.Past[n-1].Epoch == r.Epoch {
		return r.Past[n-1].Holder
	}
	return ""
}
