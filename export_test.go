package regent

import (
	"context"

	"github.com/regentd/regent/driver"
)

// Renew sends one heartbeat of what keeps a held election alive: the member's own register, or the seat's own lease. It is what the
// member's loop does when a heartbeat is due, and must not run beside it: give the member an interval that never comes.
func Renew(m *Member, election string) error {
	m.mu.Lock()
	e := m.engine
	b := e.self
	if t := e.seats[election].term; t.beat != nil {
		b = t.beat
	}
	m.mu.Unlock()
	return e.renew(e.ctx, b, e.clock.Now())
}

// SaveLate is Save without the question whether the term is valid: as if the term ended right after that was answered.
func SaveLate(ctx context.Context, t Term, data []byte) error { return t.t.save(ctx, data) }

// Hold takes the member's mutex, as a long computation would, and returns what gives it back.
func Hold(m *Member) (release func()) {
	m.mu.Lock()
	return m.mu.Unlock
}

// Known returns how many heartbeat registers the member keeps what it knows of.
func Known(m *Member) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.engine.sights)
}

// Phase returns the member's share of what a fleet spreads.
func Phase(m *Member) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.engine.phase
}

// ClaimLate claims an election as if it had been found free before whatever has been learned since. The member's loop must be
// asleep.
func ClaimLate(m *Member, election string) {
	m.mu.Lock()
	e := m.engine
	s := e.seats[election]
	m.mu.Unlock()
	e.claim(e.ctx, []*seat{s}, func(s *seat) driver.Record { return s.lease })
}

// ClaimsKept bids n times for an election, sends none of that, and returns how many claims are remembered.
func ClaimsKept(m *Member, election string, n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.engine.seats[election]
	for range n {
		m.engine.bid(s, s.lease, m.engine.clock.Now())
	}
	kept := len(s.claims)
	s.claims = nil
	return kept
}
