package sqlite

import "github.com/regentd/regent/driver"

// known is a cached revision. The record of a revision never changes, so the cache cannot be out of date.
type known struct {
	rev    string
	writer string
	lease  driver.Record // without Data and Past
}

// maxKnown bounds the number of cached revisions.
const maxKnown = 1 << 15

func newKnown(rev, writer string, l driver.Record) known {
	l.Data, l.Past = nil, nil
	return known{rev, writer, l}
}

func (s *Store) remember(k known) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[k.lease.Name] = k
}

// recall returns the record of name at rev, from the cache or from the database.
func (s *Store) recall(name, rev string) (known, error) {
	s.mu.Lock()
	k := s.known[name]
	s.mu.Unlock()

	if k.rev == rev {
		return k, nil
	}

	row, err := s.w.read(name)
	if err != nil {
		return known{}, err
	}

	if now, ok := revision(row[0]); ok && now != rev || row[0] == nil {
		return known{}, driver.ErrConflict
	}

	l, err := s.parse(name, row[0], row[1], bytesOf(row[2]))
	return newKnown(rev, textOf(row[1]), l), err
}
