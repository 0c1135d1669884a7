package redis

import (
	"context"
	"time"

	"github.com/regentd/regent/driver"
)

// reindex is how often a name is written to the index of a cluster while its register is in use. The index has a hash
// slot of its own, and a failover there may lose a name whose register is still there.
const reindex = time.Minute

// maxIndexed bounds the memory of the names.
const maxIndexed = 1 << 15

// addToIndex makes sure that a name is in the index before its register is written. Outside of a cluster the script
// does that.
func (s *Store) addToIndex(ctx context.Context, ls ...driver.Record) error {
	if !s.cluster {
		return nil
	}

	now := time.Now()
	add := []string{}

	s.mu.Lock()
	for _, l := range ls {
		if at, ok := s.indexed[l.Name]; !ok || l.Rev == "" || now.Sub(at) > reindex {
			add = append(add, "0", l.Name)
		}
	}
	s.mu.Unlock()

	if len(add) == 0 {
		return nil
	}

	if err := s.do(ctx, s.client.B().Arbitrary("ZADD").Keys(s.index).Args(add...).Build()).Error(); err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if len(s.indexed) > maxIndexed {
		clear(s.indexed)
	}

	for i := 1; i < len(add); i += 2 {
		s.indexed[add[i]] = now
	}
	return nil
}
