package regent

import (
	"context"
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
	Incarnation string        `json:"incarnation,omitempty"` // empty if it has left, or was revoked
	Joined      time.Time     `json:"joined,omitzero"`       // by its own wall clock
	Lease       time.Duration `json:"-"`                     // how long it counts without a heartbeat
	Rev         string        `json:"-"`                     // changes with every heartbeat
}

// Holder returns the member that holds an election, as its register was last read: without asking the store. False means
// that nobody holds it, that this member does, or that the register is not known.
func (m *Member) Holder(election string) (MemberView, bool) {
	v, ok := m.query(election)
	if !ok || v.Heartbeat.Vacant() || v.Heartbeat.Holder.ID == m.ID {
		return MemberView{}, false
	}
	return memberView(v.Heartbeat), true
}

// Members lists all members that ever joined, by ID. Whether one that has not left is alive can be told only by watching
// its Rev change. A member whose register cannot be read is left out: it cannot renew its lease either.
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

func memberView(l driver.Record) MemberView {
	return MemberView{MemberInfo: memberInfo(l), ID: strings.TrimPrefix(l.Name, driver.MemberPrefix), Addr: l.Addr,
		Incarnation: l.Holder.Incarnation, Joined: l.Since, Lease: l.Duration, Rev: l.Rev}
}
