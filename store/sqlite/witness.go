package sqlite

import (
	"context"

	"github.com/regentd/regent/driver"
)

// Gone implements [driver.Witness]. It returns false for a vacant record, and for one that has been replaced. It proves
// the death only of a process of the same boot and the same namespaces.
func (s *Store) Gone(ctx context.Context, l driver.Record) bool {
	if l.Vacant() || s.self == (process{}) {
		return false
	}

	s.mu.Lock()
	k, closed := s.known[l.Name], s.closed
	s.mu.Unlock()

	if closed {
		return false
	}

	if k.rev != l.Rev {
		now, err := s.Get(ctx, l.Name)
		if err != nil || now.Rev != l.Rev {
			return false
		}
		s.mu.Lock()
		k = s.known[l.Name]
		s.mu.Unlock()
	}

	p, ok := parseProcess(k.writer)
	return ok && k.rev == l.Rev && p.dead(s.self)
}
