package redis

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

//go:embed remove.lua
var removeLua string

// Remove implements [driver.Remover]. A revision contains the ID of the Store that wrote it, and a counter. So a
// register that is written again after its removal never gets a revision that it had before.
//
// In a cluster the index of names is on another node than the register. A register that is created again at the very
// moment of its removal may be missing from lists, for a minute at most if it is in use.
func (s *Store) Remove(ctx context.Context, l driver.Record) error {
	r := s.getRequest(l.Name)
	r.args = append(r.args, l.Rev)
	if !s.cluster {
		r.keys, r.args = append(r.keys, s.index), append(r.args, l.Name)
	}

	var res rueidis.RedisResult
	if s.addr.replicas > 0 {
		res = s.evalAndWait(ctx, s.remove, l.Name, r)
	} else {
		res = s.eval(ctx, s.remove, r)
	}

	err := res.Error()
	s.recycleSent(r, res)

	switch {
	case rueidis.IsRedisNil(err):
		return fmt.Errorf("remove %q at revision %q: %w", l.Name, l.Rev, driver.ErrConflict)
	case err != nil:
		return fmt.Errorf("remove %q at revision %q: %w", l.Name, l.Rev, s.explain(ctx, err))
	}

	s.notifier.noteWrite(l)
	s.forget(ctx, l.Name)
	return nil
}

// forget drops what is remembered of a removed register. In a cluster it removes the name from the index, unless the
// register exists again.
func (s *Store) forget(ctx context.Context, name string) {
	s.mu.Lock()
	delete(s.claimed, name)
	delete(s.indexed, name)
	delete(s.unconfirmed, name)
	s.mu.Unlock()

	if !s.cluster {
		return
	}

	if s.do(ctx, s.client.B().Arbitrary("ZREM").Keys(s.index).Args(name).Build()).Error() != nil {
		return // a name without a register does no harm
	}

	if _, err := s.Get(ctx, name); err == nil {
		_ = s.addToIndex(ctx, driver.Record{Name: name})
	}
}
