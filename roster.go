package regent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

// MemberView is a member as its register shows it.
type MemberView struct {
	MemberInfo
	ID          string        `json:"id"`
	Addr        string        `json:"addr,omitempty"`
	Incarnation string        `json:"incarnation,omitempty"` // empty if the member has left, or was revoked
	Ended       Reason        `json:"ended,omitempty"`       // why the last incarnation ended, if it is known to have
	Joined      time.Time     `json:"joined,omitzero"`       // by its own wall clock
	Lease       time.Duration `json:"-"`                     // how long one heartbeat counts
	Rev         string        `json:"-"`                     // changes with every heartbeat
}

func memberView(l driver.Record) MemberView {
	var ended Reason
	if n := len(l.Past); n > 0 && l.Vacant() {
		ended = Reason(l.Past[n-1].Reason)
	}

	return MemberView{
		MemberInfo: memberInfo(l), ID: strings.TrimPrefix(l.Name, driver.MemberPrefix), Addr: l.Addr,
		Incarnation: l.Holder.Incarnation, Ended: ended, Joined: l.Since, Lease: l.Duration, Rev: l.Rev,
	}
}

// Holder returns the member that leads an election, as its register was last read. It does not ask the store. The
// result is false if nobody leads, if this member leads, or if the register is not known.
func (m *Member) Holder(election string) (MemberView, bool) {
	v, ok := m.query(election)
	if !ok || v.Heartbeat.Vacant() || v.Heartbeat.Holder.ID == m.ID {
		return MemberView{}, false
	}

	return memberView(v.Heartbeat), true
}

// Members lists the members that have a register, by ID, those that have left included. Which of them are alive
// cannot be known from one list: use [Member.WatchMembers] or a [Roster] for that. Members whose register cannot be
// read are left out. An error that the store has caused wraps [ErrStore].
func (m *Member) Members(ctx context.Context) ([]MemberView, error) {
	listed, _, err := listMembers(ctx, m.Store)
	if err != nil {
		return nil, err
	}

	var all []MemberView
	for _, l := range listed {
		all = append(all, memberView(l))
	}

	slices.SortFunc(all, func(a, b MemberView) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// MemberState is a member, and whether it is alive.
type MemberState struct {
	MemberView

	// Alive reports whether the member has joined and its lease has not expired, as far as the lists show: see
	// [Roster.List].
	Alive bool
	// HeartbeatAge is for how long the newest heartbeat is known to have been the newest: from when it was first
	// received to when the last list was sent.
	HeartbeatAge time.Duration
	// Heartbeats counts the heartbeats of the member that the roster has seen. At 1 the member may have died long ago.
	Heartbeats int
}

// Roster lists the members of a cluster and reports which of them are alive. It counts the lease of each member on the
// clock of its own process, so it has to be kept from one list to the next. It is for use by one goroutine at a time.
// [Member.NewRoster] returns one; the zero Roster has no store, so that its List fails.
type Roster struct {
	store driver.Store
	clock Clock                // nil for the system's
	known map[string]*sighting // by register; those of the last list
}

// NewRoster returns a roster that has listed nothing yet. It does not start the member.
func (m *Member) NewRoster() *Roster {
	return &Roster{store: m.Store, clock: m.Clock}
}

// List lists the members that have a register, by ID, those that have left included. The maps in the result are shared
// with later results and must not be changed. An error that the store has caused wraps [ErrStore], and changes nothing.
//
// A member is alive when it is first listed, and until a list shows that its heartbeat has not changed for its lease.
// The lease is counted from after the list had returned that first showed the heartbeat, to before the last list was
// sent: so a slow list never makes a live member count as dead. A member whose register cannot be read is listed as it
// was last read. If the store is a [driver.Skimmer], what a member publishes about itself may be some minutes older
// than its heartbeat: see [driver.SkimAge].
func (r *Roster) List(ctx context.Context) ([]MemberState, error) {
	states, _, err := r.list(ctx)
	return states, err
}

// list is List. It also reports whether anything has changed since the list before.
func (r *Roster) list(ctx context.Context) (states []MemberState, changed bool, err error) {
	if r.clock == nil {
		r.clock = newSystemClock()
	}

	sent := r.clock.Now()
	listed, unreadable, err := skimMembers(ctx, r.store, driver.SkimAge(len(r.known)))
	if err != nil {
		return nil, false, err
	}

	states, changed = r.take(listed, unreadable, sent, r.clock.Now())
	return states, changed, nil
}

// take takes in a list.
func (r *Roster) take(
	listed []driver.Record, unreadable []string, sent, received time.Duration,
) (states []MemberState, changed bool) {
	now := make(map[string]*sighting, len(listed))
	for _, l := range listed {
		s := r.known[l.Name]
		if s == nil {
			s = &sighting{}
		}
		if s.see(l, received) {
			changed = true
		}

		now[l.Name] = s
	}

	for _, name := range unreadable {
		if s := r.known[name]; s != nil {
			now[name] = s
		}
	}

	for name := range r.known {
		if now[name] == nil {
			changed = true
		}
	}

	r.known = now

	for _, s := range now {
		if s.judge(sent) {
			changed = true
		}

		states = append(states, s.state)
	}

	slices.SortFunc(states, func(a, b MemberState) int { return strings.Compare(a.ID, b.ID) })
	return states, changed
}

// sighting is what a roster knows of one member.
type sighting struct {
	record driver.Record
	state  MemberState
	since  time.Duration // when the list returned that first showed the newest heartbeat
}

// see takes in the member's register, as a list showed it that returned at received. It reports whether the member has
// joined or left, or publishes something else about itself.
//
// An edit of the register keeps the nonce and adds to the number of edits. It is no heartbeat, so it gives no time. Any
// other change of the revision counts from now on, also one by which the store has gone back (rule 2).
func (s *sighting) see(l driver.Record, received time.Duration) (changed bool) {
	first := s.record.Name == ""
	before := s.record
	s.record = l

	edited := l.Holder == before.Holder && l.Nonce == before.Nonce && l.Edits > before.Edits
	if first || l.Rev != before.Rev && !edited {
		s.since = received
		s.state.Heartbeats++
	}

	changed = first || l.Holder != before.Holder || l.Addr != before.Addr || !bytes.Equal(l.Data, before.Data)
	if changed {
		s.state.MemberView = memberView(l)
	}

	s.state.Rev = l.Rev
	s.state.Lease = l.Duration
	return changed
}

// judge decides whether the member is alive, by a list that was sent at sent. It reports whether that has changed.
func (s *sighting) judge(sent time.Duration) (changed bool) {
	before := s.state.Alive
	s.state.HeartbeatAge = max(0, sent-s.since)
	s.state.Alive = s.joined() && s.state.HeartbeatAge < s.record.Duration
	return s.state.Alive != before
}

// joined reports whether a member holds its register. A register in which the name and the holder differ was not
// written by a member.
func (s *sighting) joined() bool {
	return !s.record.Vacant() && s.record.Name == driver.MemberRegister(s.record.Holder.ID)
}

// listMembers returns the registers of all members, and the names of those that cannot be read.
func listMembers(ctx context.Context, store driver.Store) (listed []driver.Record, unreadable []string, err error) {
	if store == nil {
		return nil, nil, errNoStore
	}

	return collect(func() iter.Seq2[driver.Record, error] { return store.List(ctx, driver.MemberPrefix) })
}

// skimMembers is listMembers, except that what a member publishes may be older than its heartbeat.
func skimMembers(ctx context.Context, store driver.Store, age time.Duration) ([]driver.Record, []string, error) {
	if store == nil {
		return nil, nil, errNoStore
	}

	return collect(func() iter.Seq2[driver.Record, error] {
		return driver.Skim(ctx, store, driver.MemberPrefix, age)
	})
}

// collect returns the registers that a list yields, and the names of those that cannot be read.
func collect(list func() iter.Seq2[driver.Record, error]) (listed []driver.Record, unreadable []string, err error) {
	err = protect(func() error {
		for l, err := range list() {
			switch {
			case err == nil:
				listed = append(listed, l)
			case l.Name != "":
				unreadable = append(unreadable, l.Name)
			default:
				return err
			}
		}

		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list members: %w: %w", ErrStore, err)
	}
	return listed, unreadable, nil
}

// WatchMembers yields all members that have a register, by ID, and which of them are alive: now, and after each change,
// until ctx ends or the loop is left. A change is that a member has joined, has left, has died, is alive again, or
// publishes something else about itself. The slice is the caller's, the maps in it must not be changed.
//
// The members are listed every heartbeat interval, and soon after a notification of the store. So a member that
// leaves is reported at once where the store notifies. A member that dies is reported at most its lease, two heartbeat
// intervals and two lists after its last heartbeat. See [Roster.List] for when a member is alive.
//
// A list that fails, or takes longer than two lease durations, is yielded as an error that wraps [ErrStore]. What is
// known of the members then is what was yielded last. The next list that succeeds is yielded in any case. If the member
// has no store, or a configuration that is not valid, that error is the only thing yielded. WatchMembers does not start
// the member, and writes nothing to the store.
func (m *Member) WatchMembers(ctx context.Context) iter.Seq2[[]MemberState, error] {
	return func(yield func([]MemberState, error) bool) {
		cfg := m.Config.orDefault()
		if err := cfg.Validate(); err != nil {
			yield(nil, fmt.Errorf("configuration: %w", err))
			return
		}

		if m.Store == nil {
			yield(nil, errNoStore)
			return
		}

		ctx, cancel := context.WithCancel(ctx)
		defer cancel()

		w := &memberWatch{roster: m.NewRoster(), timeout: 2 * cfg.LeaseDuration, interval: cfg.HeartbeatInterval}
		if notifier, ok := m.Store.(driver.Notifier); ok {
			w.notifications = notifier.Subscribe(ctx, driver.Prefix(driver.MemberPrefix))
		}

		w.run(ctx, yield)
	}
}

// memberWatch is one loop over WatchMembers.
type memberWatch struct {
	roster        *Roster
	timeout       time.Duration        // of a list
	interval      time.Duration        // from one list to the next
	notifications <-chan driver.Record // nil if the store does not notify
	listing       chan memberList      // receives the list that has not returned yet; nil if there is none
}

// memberList is what a list has returned.
type memberList struct {
	states  []MemberState
	changed bool
	err     error
}

func (w *memberWatch) run(ctx context.Context, yield func([]MemberState, error) bool) {
	news := true // the next list is yielded in any case
	for ctx.Err() == nil {
		states, changed, err := w.list(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			news = true
			if !yield(nil, err) {
				return
			}
		case changed || news:
			news = false
			if !yield(states, nil) {
				return
			}
		}

		w.rest(ctx)
	}
}

// list lists the members, within the timeout. A driver may go on after its context has ended: the next list waits for
// it, and fails if it still has not returned.
func (w *memberWatch) list(ctx context.Context) ([]MemberState, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()

	if _, ok := w.returned(ctx); !ok {
		return nil, false, w.late(ctx.Err())
	}

	w.listing = make(chan memberList, 1)
	go func(done chan<- memberList) {
		var l memberList
		l.states, l.changed, l.err = w.roster.list(ctx)
		done <- l
	}(w.listing)

	l, ok := w.returned(ctx)
	switch {
	case !ok:
		return nil, false, w.late(ctx.Err())
	case l.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, false, w.late(l.err)
	}
	return l.states, l.changed, l.err
}

// returned waits for the list that is under way, if there is one, and reports whether it has returned.
func (w *memberWatch) returned(ctx context.Context) (memberList, bool) {
	if w.listing == nil {
		return memberList{}, true
	}

	select {
	case l := <-w.listing:
		w.listing = nil
		return l, true
	case <-ctx.Done():
		return memberList{}, false
	}
}

// late is the error of a list that takes too long.
func (w *memberWatch) late(err error) error {
	if !errors.Is(err, ErrStore) {
		err = fmt.Errorf("%w: %w", ErrStore, err)
	}
	return fmt.Errorf("the store has not listed the members within %v: %w", w.timeout, err)
}

// rest waits until the members are to be listed again: after the interval, or earlier if the store notifies.
// Notifications that come shortly after a list are coalesced, since many members may join at once.
func (w *memberWatch) rest(ctx context.Context) {
	least := min(w.interval, time.Second) / 4
	if !w.sleep(ctx, least, nil) {
		return
	}

	w.sleep(ctx, w.interval-least, w.notifications)
}

// sleep waits for d, or for a notification. It reports false if ctx has ended.
func (w *memberWatch) sleep(ctx context.Context, d time.Duration, notifications <-chan driver.Record) bool {
	timer := w.roster.clock.NewTimer(d)
	defer timer.Stop()

	select {
	case <-timer.C:
	case <-notifications:
	case <-ctx.Done():
		return false
	}

	return true
}
