package regent

import (
	"bytes"
	"context"
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
