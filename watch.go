package regent

import (
	"context"
	"iter"
	"time"

	"github.com/regentd/regent/driver"
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

	// HeartbeatAge is how long ago this member first saw the newest heartbeat of a leader that is somebody else; 0 if it has
	// seen none. Expired says that no newer one has come for longer than the lease and the takeover delay: whoever Leader
	// names does not lead any more, and nobody could take over yet. Only [Member.View] sets them: they change without an event.
	HeartbeatAge time.Duration
	Expired      bool
}

// Watch yields who leads an election, now and after each change, until ctx ends or the loop is left. It needs no candidacy: a member that
// only watches writes nothing to the store. The error is the configuration's, or of a name that cannot be; then it is the only thing yielded.
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

// View returns what this member last saw of an election that it campaigns for or watches, without asking the store. False means that it
// has seen nothing yet.
func (m *Member) View(election string) (View, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.engine == nil {
		return View{}, false
	}
	s := m.engine.seats[election]
	if s == nil || !s.seen {
		return View{}, false
	}
	v := viewOf(s.lease, election)
	v.HeartbeatAge, v.Expired = m.engine.heartbeatAgeLocked(s)
	v.Known = max(v.Epoch, m.memory[election])
	return v, true
}

// rereadWithin is how long a read may take that would show a newer heartbeat.
const rereadWithin = 2 * time.Second

// heartbeatAgeLocked returns how old the newest heartbeat is that was seen of a seat's holder, and whether it has expired: it was
// read again when it should have been replaced, and was not; or it could not be read.
func (e *engine) heartbeatAgeLocked(s *seat) (age time.Duration, expired bool) {
	if !e.followed(s) {
		return 0, false
	}
	h := e.sights[heartbeatOf(s.lease)]
	if h == nil || !h.seen || h.lease.Holder != s.lease.Holder {
		return 0, false
	}
	now := e.clock.Now()
	end := later(h.ranOut(), e.cfg.TakeoverDelay)
	return now - h.since, h.began.at >= end || now >= later(end, rereadWithin)
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
	e := m.engine
	s := e.seat(election)
	s.watchers += n
	e.dismiss(s)
	m.mu.Unlock()
	e.kick()
}

// view returns what is known of an election, and a channel that is closed when that changes.
func (m *Member) view(election string) (v View, seen bool, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.engine.seat(election)
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	v = viewOf(s.lease, election)
	v.Known = max(v.Epoch, m.memory[election])
	return v, s.seen, s.changed
}

func viewOf(l driver.Record, election string) View {
	return View{Election: election, Leader: l.Holder.ID, Addr: l.Addr, Epoch: l.Epoch, Known: l.Epoch, Via: l.Via,
		Lease: l.Duration, Since: l.Since, Next: l.Next, Paused: l.Paused, Past: l.Past}
}

func (v View) same(w View) bool {
	return v.Leader == w.Leader && v.Addr == w.Addr && v.Epoch == w.Epoch && v.Next == w.Next && v.Paused == w.Paused
}
