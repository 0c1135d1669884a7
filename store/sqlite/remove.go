package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"

	"github.com/regentd/regent/driver"
)

// staysTrigger prevents the deletion of a register, except by Remove.
const staysTrigger = `
CREATE TRIGGER regent_lease_stays BEFORE DELETE ON regent_lease BEGIN
	SELECT raise(ABORT, 'regent: a register is never deleted, or its epoch would begin again');
END;`

// Remove implements [driver.Remover]. A register that is written again after its removal never gets a revision that it
// had before: see revisions.
func (s *Store) Remove(ctx context.Context, l driver.Record) error {
	s.sent.Add("remove")
	r := &request{
		ctx: ctx, remove: true, in: []driver.Record{l}, out: make([]driver.Outcome, 1), done: make(chan struct{}, 1),
	}
	if err := s.submit(r); err != nil {
		return fmt.Errorf("remove %q: %w", l.Name, err)
	}
	return r.out[0].Err
}

// removal collects the removals of one transaction. The transaction drops the trigger that prevents deletions, and
// creates it again before it commits, so nobody else sees that.
type removal struct{ names []string }

// remove removes a register on the writer's connection, in a transaction.
func (s *Store) remove(rm *removal, l driver.Record) error {
	old, err := s.recall(l.Name, l.Rev)
	if err != nil {
		return err
	}

	if l.Rev == "" || !old.lease.Vacant() {
		return driver.ErrConflict
	}

	if len(rm.names) == 0 {
		if err := s.w.run(`DROP TRIGGER IF EXISTS regent_lease_stays`); err != nil {
			return err
		}
	}

	rm.names = append(rm.names, l.Name) // the trigger is dropped, whether or not the rest succeeds
	return s.w.exec(s.w.remove, l.Name, l.Rev)
}

// end creates the trigger again, before the commit.
func (rm *removal) end(s *Store) error {
	if len(rm.names) == 0 {
		return nil
	}
	return s.w.run(staysTrigger)
}

// committed removes the registers from the cache.
func (rm *removal) committed(s *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range rm.names {
		delete(s.known, name)
	}
}

// run executes a statement that is not prepared.
func (w *writeConn) run(text string) error {
	conn, ok := w.conn.(sqldriver.ExecerContext)
	if !ok {
		return errors.New("the connection cannot run statements that are not prepared")
	}
	_, err := conn.ExecContext(background, text, nil)
	return err
}
