package elections

import (
	"time"

	"github.com/regentd/regent/driver"
)

// heartbeat is what a lister knows of a register that is rewritten at every heartbeat.
type heartbeat struct {
	record driver.Record // without its data
	since  time.Time     // when the list returned that first showed the newest heartbeat
	count  int           // heartbeats in a row that were seen soon; at 1 its writer may have died long ago
	age    time.Duration // from since to when the last list was sent
}

// take takes in the heartbeat registers of a list. Ages are counted from after the list had returned that first showed
// a heartbeat to before the last list was sent: a slow list never makes a live member count as dead.
func (l *Lister) take(listed map[string]driver.Record, sent, received time.Time) {
	now := make(map[string]heartbeat, len(listed))
	for name, r := range listed {
		h := l.beats[name]
		before := h.record
		h.record = r
		h.record.Data = nil
		h.record.Past = lastOf(r.Past)

		// An edit keeps the nonce: it is no heartbeat.
		edited := r.Holder == before.Holder && r.Nonce == before.Nonce && r.Edits > before.Edits
		if h.count == 0 || r.Rev != before.Rev && !edited {
			h.since = received
			h.count++

			// The heartbeat may be as old as the list before.
			if received.Sub(l.listed) > r.Duration/2 {
				h.count = 1
			}
		}

		h.age = max(0, sent.Sub(h.since))
		now[name] = h
	}

	l.beats = now
	l.listed = sent
}

// alive reports whether somebody holds the register, as far as the lists show.
func (h heartbeat) alive() bool { return !h.record.Vacant() && h.age < h.record.Duration }

// known reports whether the age says something: the lister has seen more than one heartbeat, or the lease has expired.
func (h heartbeat) known() bool { return h.count > 1 || h.age > 0 }
