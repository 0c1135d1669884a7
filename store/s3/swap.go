package s3

import (
	"context"
	"fmt"
	"time"

	"github.com/regentd/regent/driver"
)

// Swap implements [driver.Store]: one conditional PUT, which is never sent again. The server's own answer that the
// condition has failed is a conflict; any other answer than success, and none, leaves the outcome unknown.
func (s *Store) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	inner, done, err := s.begin(ctx)
	if err != nil {
		return driver.Record{}, fmt.Errorf("swap %q: %w", l.Name, err)
	}

	defer done()

	sent := time.Now()
	body := s.encode(l)
	etag, err := s.put(inner, s.addr.key(l.Name), body, condition{l.Rev})
	if err != nil {
		return driver.Record{}, fmt.Errorf("swap %q: %w", l.Name, s.explain(ctx, err))
	}

	l.Rev = etag
	s.cache.put(l, len(body), sent)
	return l, nil
}
