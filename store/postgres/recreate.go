package postgres

import (
	"context"
	"errors"
	"fmt"
)

// recreate creates the table again if an error says that it is gone: somebody has dropped it, or the server came back
// with an empty database. All registers are lost then, which is a rollback like any other. Without the table nobody
// could lead until a node is started again.
//
// It returns what to report instead of err.
func (s *Store) recreate(ctx context.Context, err error) error {
	if code(err) != codeUnknownTable || !s.opened.Load() || s.opts.NoCreate || s.opts.AllowMissing || s.dropped.Load() {
		return err
	}
	if !s.creating.TryLock() {
		return errGone // somebody else creates it just now
	}
	defer s.creating.Unlock()

	if failed := s.createTable(ctx); failed != nil {
		return fmt.Errorf("%w: %w", errGone, failed)
	}
	s.opts.OnWarning(fmt.Sprintf("%s: table %s was gone, and with it all registers; it was created again", s.location,
		s.opts.Table))
	return errGone
}

// errGone means that a request found no table.
var errGone = errors.New("the table was gone, and with it all registers")
