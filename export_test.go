package regent

import (
	"context"

	"github.com/regentd/regent/internal/core"
)

// SaveLate is Save without the question whether the term is valid: as if the term ended right after that was answered.
func SaveLate(ctx context.Context, t Term, data []byte) error { return t.t.save(ctx, data) }

// Known returns how many heartbeat registers the member keeps what it knows of.
func Known(m *Member) (n int) {
	m.run.shell.Query(func(c *core.Core, _ core.Time) { n = c.Registers() })
	return n
}

// Remembered returns how many elections the member knows the highest epoch of.
func Remembered(m *Member) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.memory)
}

// Phase returns the member's share of what a fleet spreads.
func Phase(m *Member) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run.phase
}
