package regent

import (
	"context"
	"iter"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// View is an election as its record shows it.
type View struct {
	Election string
	Leader   string // the holder's ID; empty if the seat is vacant
	Addr     string
	Epoch    uint64 // of the current term, or of the last one, as the store shows it
	Known    uint64 // the highest epoch that this member knows of: more than Epoch if the store has lost writes
	Via      string // the heartbeat register that keeps the current term; empty if the term has a lease of its own
	Lease    time.Duration
	Since    time.Time
	Next     string // held: asked to hand over to; vacant: reserved for
	Paused   bool
	Past     []driver.Past // the last 32 terms, oldest first

	// HeartbeatAge is how long ago this member first saw the newest heartbeat of a leader that is somebody else; 0 if
	// it has seen none. Expired says that no newer one has come for longer than the lease and the takeover delay:
	// whoever Leader names does not lead any more, and nobody could take over yet. Only [Member.View] sets them: they
	// change without an event.
	HeartbeatAge time.Duration
	Expired      bool
}

// Watch yields who leads an election, now and after each change, until ctx ends or the loop is left. It needs no
// candidacy: a member that only watches writes nothing to the store. The error is the configuration's, or of a name
// that cannot be; then it is the only thing yielded.
func (m *Member) Watch(ctx context.Context, election string) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		if err := validElection(election); err != nil {
			yield(View{}, err)
			return
		}
		if err := m.enter(ctx); err != nil {
			yield(View{}, err)
			return
		}
		defer m.exit()
		m.look(election, 1)
		defer m.look(election, -1)
		var last View
		for first := true; ; {
			v, seen, changed := m.view(election)
			if seen && (first || !v.same(last)) {
				if !yield(v, nil) {
					return
				}
				first, last = false, v
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// View returns what this member last saw of an election that it campaigns for or watches, without asking the store.
// False means that it has seen nothing yet.
func (m *Member) View(election string) (View, bool) {
	known, ok := m.query(election)
	if !ok {
		return View{}, false
	}
	v := viewOf(known.Record, election)
	v.HeartbeatAge = known.Age
	v.Expired = known.Expired
	m.mu.Lock()
	defer m.mu.Unlock()
	v.Known = max(v.Epoch, m.memory[election])
	return v, true
}

// query returns what the core knows of an election.
func (m *Member) query(election string) (v core.View, ok bool) {
	m.mu.Lock()
	r := m.run
	m.mu.Unlock()
	if r != nil {
		r.shell.Query(func(c *core.Core, now core.Time) { v, ok = c.View(election, now) })
	}
	return v, ok
}

// electionView is what those who watch an election see. The member's mutex guards it.
type electionView struct {
	record  driver.Record
	seen    bool
	changed chan struct{} // closed and replaced when what watchers see has changed; nil while nobody waits
}

// show takes in a record.
func (v *electionView) show(record driver.Record) {
	v.record = record
	v.seen = true
	v.wake()
}

func (v *electionView) wake() {
	if v.changed != nil {
		close(v.changed)
		v.changed = nil
	}
}

// viewLocked returns what is known of an election, new if need be.
func (m *Member) viewLocked(election string) *electionView {
	v := m.views[election]
	if v == nil {
		v = &electionView{}
		if m.views == nil {
			m.views = map[string]*electionView{}
		}
		m.views[election] = v
	}
	return v
}

// forgetViewLocked forgets what is known of an election that nobody is interested in any more.
func (m *Member) forgetViewLocked(election string) {
	if m.cands[election] == nil && m.watched[election] == 0 {
		delete(m.views, election)
	}
}

// look counts the watchers of an election.
func (m *Member) look(election string, n int) {
	m.mu.Lock()
	if m.watched == nil {
		m.watched = map[string]int{}
	}
	if m.watched[election] += n; m.watched[election] == 0 {
		delete(m.watched, election)
	}
	r := m.run
	if n > 0 {
		r.shell.Queue(core.Watch{Election: election})
	} else {
		r.shell.Queue(core.Unwatch{Election: election})
		m.forgetViewLocked(election)
	}
	m.mu.Unlock()
	r.shell.Do()
}

// view returns what is known of an election, and a channel that is closed when that changes.
func (m *Member) view(election string) (View, bool, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.viewLocked(election)
	if v.changed == nil {
		v.changed = make(chan struct{})
	}
	shown := viewOf(v.record, election)
	shown.Known = max(shown.Epoch, m.memory[election])
	return shown, v.seen, v.changed
}

func viewOf(l driver.Record, election string) View {
	return View{Election: election, Leader: l.Holder.ID, Addr: l.Addr, Epoch: l.Epoch, Known: l.Epoch, Via: l.Via,
		Lease: l.Duration, Since: l.Since, Next: l.Next, Paused: l.Paused, Past: l.Past}
}

func (v View) same(w View) bool {
	return v.Leader == w.Leader && v.Addr == w.Addr && v.Epoch == w.Epoch && v.Next == w.Next && v.Paused == w.Paused
}
