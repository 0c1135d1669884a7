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
	Leader   string // the holder's ID; empty if the election is vacant
	Addr     string // the holder's address
	Epoch    uint64 // of the current term, or of the last one, as the store shows it
	Known    uint64 // the highest epoch that this member knows of: above Epoch if the store has lost writes
	Via      string // the heartbeat register that keeps the current term; empty if the term has a lease of its own
	Lease    time.Duration
	Since    time.Time // when the current term began, by the leader's wall clock
	Next     string    // held: the member that it is to be handed over to; vacant: the member that it is reserved for
	Paused   bool
	Past     []driver.Past // the last 32 terms, oldest first

	// HeartbeatAge is how long ago this member first saw the newest heartbeat of a leader that is another member; 0
	// if it has seen none, or watches the leader seldom because others watch it closely. Expired reports that no
	// newer heartbeat has come for longer than the lease and the takeover delay, or that Leader's process is known to
	// have ended: Leader no longer leads, and nobody has taken over yet. Reason is why, if Expired. Only
	// [Member.View] sets these three: they change with time alone.
	HeartbeatAge time.Duration
	Expired      bool
	Reason       Reason
}

// Watch yields who leads an election, now and after each change, until ctx ends or the loop is left. The member need
// not campaign: a member that only watches writes nothing to the store.
//
// If the configuration or the name of the election is not valid, that error is the only thing yielded.
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

		m.addWatcher(election)
		defer m.removeWatcher(election)

		m.yieldChanges(ctx, election, yield)
	}
}

// yieldChanges yields the views of an election until ctx ends or yield returns false.
func (m *Member) yieldChanges(ctx context.Context, election string, yield func(View, error) bool) {
	var last View
	first := true
	for {
		v, seen, changed := m.view(election)
		if seen && (first || !v.same(last)) {
			if !yield(v, nil) {
				return
			}

			first = false
			last = v
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// View returns what this member has last seen of an election that it watches or campaigns for. It does not ask the
// store. The result is false if the member has seen nothing yet.
func (m *Member) View(election string) (View, bool) {
	known, ok := m.query(election)
	if !ok {
		return View{}, false
	}

	v := viewOf(known.Record, election)
	v.HeartbeatAge = known.Age
	v.Expired = known.Expired
	v.Reason = Reason(known.Reason)

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
	changed chan struct{} // closed when record is replaced; nil while nobody waits
}

// showLocked replaces the record, and wakes those who wait for that.
func (v *electionView) showLocked(record driver.Record) {
	v.record = record
	v.seen = true
	if v.changed != nil {
		close(v.changed)
		v.changed = nil
	}
}

// viewLocked returns the view of an election, and makes it if there is none.
func (m *Member) viewLocked(election string) *electionView {
	v := m.views[election]
	if v != nil {
		return v
	}

	v = &electionView{}
	if m.views == nil {
		m.views = map[string]*electionView{}
	}

	m.views[election] = v
	return v
}

// forgetViewLocked removes the view of an election that nobody watches or campaigns for.
func (m *Member) forgetViewLocked(election string) {
	if m.cands[election] == nil && m.watchers[election] == 0 {
		delete(m.views, election)
	}
}

// addWatcher counts one more loop over [Member.Watch] for an election.
func (m *Member) addWatcher(election string) {
	m.mu.Lock()
	if m.watchers == nil {
		m.watchers = map[string]int{}
	}

	m.watchers[election]++
	r := m.run
	r.shell.Queue(core.Watch{Election: election})
	m.mu.Unlock()

	r.shell.Do()
}

// removeWatcher ends what addWatcher began.
func (m *Member) removeWatcher(election string) {
	m.mu.Lock()
	m.watchers[election]--
	if m.watchers[election] == 0 {
		delete(m.watchers, election)
	}

	r := m.run
	r.shell.Queue(core.Unwatch{Election: election})
	m.forgetViewLocked(election)
	m.mu.Unlock()

	r.shell.Do()
}

// view returns what watchers of an election see, and a channel that is closed when it changes.
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
	return View{
		Election: election, Leader: l.Holder.ID, Addr: l.Addr, Epoch: l.Epoch, Known: l.Epoch, Via: l.Via,
		Lease: l.Duration, Since: l.Since, Next: l.Next, Paused: l.Paused, Past: l.Past,
	}
}

func (v View) same(w View) bool {
	return v.Leader == w.Leader && v.Addr == w.Addr && v.Epoch == w.Epoch && v.Next == w.Next && v.Paused == w.Paused
}
