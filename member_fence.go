package regent

import "time"

// MemberFence is a fence that a member keeps. It is raised by each epoch that the member sees in the store, and by the
// work that it admits. It is safe for concurrent use.
type MemberFence struct{ fence Fence }

// Fence returns the member's fence for an election: the same one at each call. It is configured by the member's Config,
// and its refusals count in [Member.Stats]. It is kept in memory alone: for a fence that survives a restart, make a
// [Fence] with a Path.
func (m *Member) Fence(election string) *MemberFence {
	m.mu.Lock()
	defer m.mu.Unlock()

	f := m.fences[election]
	if f != nil {
		return f
	}

	cfg := m.Config.orDefault()
	f = &MemberFence{Fence{Grace: cfg.EpochGracePeriod, Off: cfg.EpochFencingOff, drifts: &m.stats.drifts}}
	_ = f.fence.Learn(Token{Epoch: m.memory[election]}) // only a fence with a file can fail to learn
	if m.fences == nil {
		m.fences = map[string]*MemberFence{}
	}
	m.fences[election] = f
	return f
}

// Admit is [Fence.Admit].
func (f *MemberFence) Admit(t Token) error { return f.fence.Admit(t) }

// AdmitLate is [Fence.AdmitLate].
func (f *MemberFence) AdmitLate(t Token, dispatched time.Time, idempotent bool) error {
	return f.fence.AdmitLate(t, dispatched, idempotent)
}

// Learn is [Fence.Learn].
func (f *MemberFence) Learn(t Token) error { return f.fence.Learn(t) }

// Highest returns the token of the newest term that the fence has seen; the zero Token if it has seen none.
func (f *MemberFence) Highest() Token {
	t, _ := f.fence.Highest() // only a fence with a file can fail
	return t
}

// Refused returns how many tokens the fence has refused as stale.
func (f *MemberFence) Refused() uint64 { return f.fence.Refused() }

// Late returns how many pieces of late work the fence has admitted within the grace period.
func (f *MemberFence) Late() uint64 { return f.fence.Late() }
