package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"

	"github.com/regentd/regent/driver"
)

// staysTrigger keeps anybody but Remove from deleting a register.
const staysTrigger = `
CREATE TRIGGER regent_lease_stays BEFORE DELETE ON regent_lease BEGIN
	SELECT raise(ABORT, 'regent: a register is never deleted, or its epoch would begin again');
END;`

// Remove implements [driver.Remover]. The revision of a register that is written again after its removal is another one than
// all that it had: see revisions.
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

// removal is the removals of one transaction. The trigger that keeps registers is gone for its time, and is back before anybody
// else can see that.
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
	rm.names = append(rm.names, l.Name) // the trigger is gone, whatever comes of this
	return s.w.exec(s.w.remove, l.Name, l.Rev)
}

// end puts the trigger back, before the commit.
func (rm *removal) end(s *Store) error {
	if len(rm.names) == 0 {
		return nil
	}
	return s.w.run(staysTrigger)
}

// committed forgets what was known of registers that were removed.
func (rm *removal) committed(s *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range rm.names {
		delete(s.known, name)
	}
}

// run runs a statement that is not prepared.
func (w *writeConn) run(text string) error {
	conn, ok := w.conn.(sqldriver.ExecerContext)
	if !ok {
		return errors.New("the connection takes no statements that are not prepared")
	}
	_, err := conn.ExecContext(background, text, nil)
	return err
}
