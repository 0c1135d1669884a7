package orchestrate

import (
	"log/slog"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/cmd/regent/internal/schedule"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// tenSeconds is a poll that is due every ten seconds.
var tenSeconds = poll.Poll{Interval: poll.Duration(10 * time.Second)}

// idleTerm returns a term without workers, so that nothing is ever sent. Its events are added to events, unless that is
// nil.
func idleTerm(t *testing.T, lead regent.Term, events *[]regent.Event, fixed ...poll.Poll) *term {
	emit := func(e regent.Event) {
		if events != nil {
			*events = append(*events, e)
		}
	}
	o := New(Options{Store: memstore.New(), Emit: emit, Log: slog.New(slog.DiscardHandler), Fixed: fixed})
	tm := newTerm(t.Context(), o, lead)
	tm.pool = work.NewPool(t.Context(), lead, work.Options{})
	t.Cleanup(tm.pool.Close)
	tm.listedAt = tm.beganMono

	return tm
}

// secondTerm returns a term of which no member has the lease.
func secondTerm(t *testing.T, events *[]regent.Event) *term {
	return idleTerm(t, regent.Term{Election: "e", Epoch: 2}, events)
}

// addSlot queues a slot of an entry.
func (t *term) addSlot(e *entry, due time.Time) *slot {
	t.entries[e.poll.Name] = e
	s := newSlot(e, schedule.Slot{Due: due.UnixMilli()})
	e.enqueue(s)
	t.open[s] = struct{}{}
	t.addPendingLocked(e)

	return s
}

// entryOf returns the entry of an enabled poll with a schedule.
func entryOf(t *testing.T, p poll.Poll) *entry {
	t.Helper()
	p.Name = "p"
	p.Kind = "tcp"
	p.Target = "h:1"
	p.Enabled = true
	e, err := newEntry(p.WithDefaults(), false)
	if err != nil {
		t.Fatal(err)
	}

	return e
}
