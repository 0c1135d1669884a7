package sqlite

import "github.com/regentd/regent/driver"

var _ driver.Counter = (*Store)(nil)

// Requests implements [driver.Counter]: reads by their kind, and calls that write. Several writes may share a
// transaction.
func (s *Store) Requests() map[string]uint64 { return s.sent.Requests() }
