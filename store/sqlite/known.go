package sqlite

import "github.com/regentd/regent/driver"

// known is what the driver remembers of a revision. A revision's record never changes, so that this cannot be out of date.
type known struct {
	rev    string
	writer string
	lease  driver.Record // what Notable, Gone and this driver look at, without the weight
}

// maxKnown bounds the memory of it.
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

// recall returns what was in name at rev, from memory or from the database.
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
