package core

import (
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is about why a term ended, as its successor writes it into the record's past. What people read comes
// from there, so it must be true: a death that was proved is no expiry.

// Reasons in a record's past, and in events, that are no causes.
const (
	ReasonExpired   = "expired"   // the successor, or the store itself, found the heartbeat expired
	ReasonDied      = "died"      // its companion process, or the store's witness, proved its process dead
	ReasonKilled    = "killed"    // its companion process killed it, because it was silent past its deadline
	ReasonRejoined  = "rejoined"  // its member has joined anew: it was restarted, or had lost its lease
	ReasonAbandoned = "abandoned" // a claim was applied after it had been given up
	ReasonFirst     = "first"     // there was no term before: nobody has led
	ReasonForgotten = "forgotten" // there was one, of which the store knows nothing any more
)

// ending is how the holding of a register ended, and when, by the wall clock of whoever saw it.
type ending struct {
	reason string
	at     time.Time // zero if not known
}

// endingOfWatch returns how a heartbeat ended that has expired, or whose process is proved dead.
func (c *Core) endingOfWatch(w *watch) ending {
	if w.gone {
		return ending{ReasonDied, c.src.Wall()}
	}

	return ending{ReasonExpired, c.wallAt(w.expires())}
}

// wallAt returns what the wall clock showed at a moment that has passed, or shows now.
func (c *Core) wallAt(at Time) time.Time {
	return c.src.Wall().Add(-time.Duration(max(0, c.now-at)))
}

// endedBefore returns how the holder of a watched register ended that another record was received in place of. A
// register that was vacated, and the first heartbeat of an incarnation, say it. Otherwise it is known only if the
// heartbeat had expired by then: one that was replaced sooner ended at a moment that nobody here knows.
func (c *Core) endedBefore(w *watch, r *driver.Record) driver.Past {
	if n := len(r.Past); n > 0 && r.Past[n-1].Epoch >= w.rec.Epoch {
		return r.Past[n-1]
	}

	if w.rec.Vacant() {
		return w.former
	}

	p := driver.Past{Epoch: w.rec.Epoch, Holder: w.rec.Holder.ID, Reason: ReasonRejoined}
	if r.Vacant() {
		p.Reason = ReasonExpired // by the store itself
	}

	if r.Vacant() || c.now >= w.expires() {
		p.Ended = c.wallAt(w.expires())
	}

	return p
}

// endingOf returns how the term of a record ended that is free to claim: from this process's own memory, if the term
// was its own, and else from what is known of its heartbeat.
func (c *Core) endingOf(e *election, r *driver.Record) ending {
	if end, known := c.endOf(r.Holder); known {
		return end
	}

	w := &e.own
	if i, ok := c.sighted[r.Via]; ok {
		w = &c.sights.all[i].watch
	}

	switch {
	case !w.seen || r.Via != "" && w == &e.own:
		return ending{reason: ReasonExpired}
	case r.Via == "" || w.rec.Holder == r.Holder:
		return c.endingOfWatch(w)
	}

	count := incarnationCount(r.Holder.Incarnation)
	if n := len(w.rec.Past); n > 0 && w.rec.Past[n-1].Epoch == count {
		return ending{w.rec.Past[n-1].Reason, w.rec.Past[n-1].Ended}
	}

	if w.former.Epoch == count && w.former.Holder == r.Holder.ID {
		return ending{w.former.Reason, w.former.Ended}
	}

	if !w.rec.Vacant() {
		return ending{reason: ReasonRejoined}
	}

	return ending{reason: ReasonExpired} // by the store itself
}

// endingByStore returns how the term of a vacant record ended that does not say so: the store has found it expired.
func (c *Core) endingByStore(e *election, r *driver.Record) ending {
	if e.lastHeld.Epoch == r.Epoch {
		if end, known := c.endOf(e.lastHeld.Holder); known {
			return end
		}
	}

	if e.own.former.Epoch == r.Epoch {
		return ending{ReasonExpired, e.own.former.Ended}
	}

	return ending{reason: ReasonExpired}
}

// lifeEnd is how an incarnation of this process ended, or a term of it that had a lease of its own.
type lifeEnd struct {
	who driver.Identity
	ending
}

// maxEnds is how many of them are remembered at least: more than can still show up in a store.
const maxEnds = 64

// noteEnd remembers how a heartbeat of this process is about to end: at its deadline at the latest, even where the
// process noticed that later.
func (c *Core) noteEnd(b *beat, cause Cause) {
	if _, known := c.endOf(b.who); known || b.ended {
		return
	}

	end := lifeEnd{b.who, ending{string(cause), c.wallAt(b.deadline)}}
	if len(c.ends) == 2*maxEnds { // seldom, because it copies them
		c.ends = c.ends[:copy(c.ends, c.ends[maxEnds:])]
	}

	c.ends = append(c.ends, end)
}

// endOf returns how an incarnation of this process ended, and whether it was one that has.
func (c *Core) endOf(who driver.Identity) (ending, bool) {
	for i := len(c.ends) - 1; i >= 0; i-- { // it is the last one, most likely
		if c.ends[i].who == who {
			return c.ends[i].ending, true
		}
	}

	return ending{}, false
}

// pastOf returns what the first heartbeat of an incarnation says of the one before, whose record it replaces.
func (c *Core) pastOf(r *driver.Record) []driver.Past {
	if end, known := c.endOf(r.Holder); known {
		return ended(&driver.Record{Epoch: r.Epoch, Holder: r.Holder, Since: r.Since}, end.at, end.reason)
	}

	return r.Past // it was vacated; or this process failed to join as that one, which has done nothing
}

// unsaid returns the last term of a record if its leader has died, or fallen silent, and was not a former run of this
// very process: nobody else reports its end.
func (c *Core) unsaid(e *election, r *driver.Record, past []driver.Past) driver.Past {
	if len(past) == 0 || slices.Contains(c.endings, r.Holder) {
		return driver.Past{}
	}

	last := past[len(past)-1]
	silent := []string{ReasonExpired, ReasonDied, ReasonKilled}
	if last.Epoch != r.Epoch || last.Holder == "" || !slices.Contains(silent, last.Reason) {
		return driver.Past{}
	}

	if last.Holder == c.cfg.ID && last.Epoch == e.reported {
		return driver.Past{} // a store that expires records by itself no longer says which run held it
	}

	return last
}

// withForgotten returns the past of a claim, with an entry for the terms that this member knows of and the store has
// lost: otherwise the last term that the store still has would pass for the one before.
func (c *Core) withForgotten(r *driver.Record, past []driver.Past) []driver.Past {
	highest := c.memory[r.Name]
	if r.Rev == "" || highest <= r.Epoch {
		return past
	}

	return ended(&driver.Record{Epoch: highest, Past: past}, time.Time{}, ReasonForgotten)
}

// before is how the term before another one ended.
type before struct {
	leader string        // empty if nobody held it, or that is not known
	reason string        // ReasonFirst if there was none, ReasonForgotten if that is not known
	vacant time.Duration // how long nobody led after it, by two wall clocks; -1 if not known
}

// termBefore returns how the term before that of a held record ended.
func (c *Core) termBefore(r *driver.Record) before {
	n := len(r.Past)
	if n == 0 || r.Past[n-1].Epoch >= r.Epoch {
		if c.memory[r.Name] <= r.Epoch && r.Epoch <= 1 {
			return before{reason: ReasonFirst, vacant: -1}
		}

		return before{reason: ReasonForgotten, vacant: -1}
	}

	last := &r.Past[n-1]
	b := before{last.Holder, last.Reason, -1}
	if !r.Since.IsZero() && !last.Ended.IsZero() {
		b.vacant = max(0, r.Since.Sub(last.Ended)) // the clocks of two machines may differ
	}

	return b
}
