package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/regentd/regent"
	modernc "modernc.org/sqlite"
)

// request is one call of Swap or SwapAll on its way through drain.
type request struct {
	ctx  context.Context
	in   []regent.Lease
	out  []regent.Outcome // drain's, until done receives
	done chan struct{}    // has room for one
}

// Swap implements [regent.Store].
func (s *Store) Swap(ctx context.Context, l regent.Lease) (regent.Lease, error) {
	r, _ := s.requests.Get().(*request)
	if r == nil {
		r = &request{in: make([]regent.Lease, 1), out: make([]regent.Outcome, 1), done: make(chan struct{}, 1)}
	}
	r.ctx, r.in[0] = ctx, l
	if err := s.submit(r); err != nil {
		return regent.Lease{}, fmt.Errorf("swap %q: %w", l.Name, err) // r is still drain's
	}
	out := r.out[0]
	r.ctx, r.in[0], r.out[0] = nil, regent.Lease{}, regent.Outcome{}
	s.requests.Put(r)
	return out.Lease, out.Err
}

// SwapAll implements [regent.Batcher]: one transaction, one fsync.
func (s *Store) SwapAll(ctx context.Context, ls []regent.Lease) []regent.Outcome {
	if len(ls) == 0 {
		return nil
	}
	// A copy, since the caller may be gone before drain is done with it.
	r := &request{ctx: ctx, in: slices.Clone(ls), out: make([]regent.Outcome, len(ls)), done: make(chan struct{}, 1)}
	err := s.submit(r)
	if err == nil {
		return r.out
	}
	out := make([]regent.Outcome, len(ls))
	for i, l := range ls {
		out[i].Err = fmt.Errorf("swap %q: %w", l.Name, err)
	}
	return out
}

// submit hands a request to drain and waits, but not longer than its context: a disk that hangs must not keep a leader from
// stepping down.
func (s *Store) submit(r *request) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return regent.ErrClosed
	}
	s.queue = append(s.queue, r)
	if !s.draining {
		s.draining = true
		s.work.Add(1)
		go s.drain()
	}
	s.mu.Unlock()
	select {
	case <-r.done:
		return nil
	case <-r.ctx.Done():
		if s.blocked.Load() {
			return fmt.Errorf("%w while another process held the write lock of %s", r.ctx.Err(), s.path)
		}
		return r.ctx.Err()
	}
}

// drain writes what is queued and ends when nothing is. Whatever has gathered during one commit shares the next.
func (s *Store) drain() {
	defer s.work.Done()
	for attempt := 0; ; {
		s.mu.Lock()
		batch, closed := s.queue, s.closed
		s.queue, s.spare = s.spare[:0], batch
		s.draining = len(batch) > 0
		s.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		batch = waiting(batch, closed)
		if len(batch) == 0 {
			continue
		}
		again, err := false, s.usable()
		if err == nil {
			again, err = s.write(batch)
		}
		if s.blocked.Store(again); again {
			s.mu.Lock()
			s.queue = append(slices.Clone(batch), s.queue...)
			s.mu.Unlock()
			time.Sleep(pause(attempt))
			attempt++
			continue
		}
		attempt = 0
		answer(batch, s.located(err))
		clear(batch)
	}
}

// waiting drops the requests that nobody waits for any more.
func waiting(batch []*request, closed bool) []*request {
	keep := batch[:0]
	for _, r := range batch {
		err := r.ctx.Err()
		if closed {
			err = regent.ErrClosed
		}
		if err != nil {
			answer([]*request{r}, err)
			continue
		}
		keep = append(keep, r)
	}
	return keep
}

// answer gives every swap of the batch its outcome. If the transaction failed, that is unknown for all of them, even for one
// that was refused: perhaps because of another in the same transaction.
func answer(batch []*request, err error) {
	for _, r := range batch {
		for i := range r.out {
			if err != nil {
				r.out[i] = regent.Outcome{Err: fmt.Errorf("swap %q: %w", r.in[i].Name, err)}
			}
		}
		r.done <- struct{}{}
	}
}

// write applies the batch: one statement that commits by itself for a single swap, else a transaction. Again says that nothing
// was done because of somebody's lock.
func (s *Store) write(batch []*request) (again bool, err error) {
	defer func() {
		// After any other error the state of the connection is anybody's guess. The next write opens a new one.
		if err != nil && !again && s.w != nil {
			_ = s.w.close()
			s.w = nil
		}
	}()
	if s.w == nil {
		if s.w, err = openWriter(s.path); err != nil {
			return busy(err), err
		}
	}
	single := len(batch) == 1 && len(batch[0].in) == 1
	if !single {
		if _, err := s.w.begin.ExecContext(background, nil); err != nil {
			return busy(err), err
		}
	}
	applied := s.w.applied[:0]
	defer func() { clear(applied) }()
	for _, r := range batch {
		for i, l := range r.in {
			n, err := s.swap(l)
			switch {
			case err == nil:
				applied = append(applied, n)
				l.Rev = strconv.FormatInt(n.rev, 10)
				r.out[i] = regent.Outcome{Lease: l}
			case code(err) == 0: // a conflict, or a record that cannot be read
				r.out[i] = regent.Outcome{Err: fmt.Errorf("swap %q at revision %q: %w", l.Name, l.Rev, err)}
			default:
				return single && busy(err), err
			}
		}
	}
	if !single {
		if _, err := s.w.commit.ExecContext(background, nil); err != nil {
			return false, err
		}
	}
	s.announce(applied)
	if cap(applied) <= maxKept {
		s.w.applied = applied
	}
	return false, nil
}

// written is a swap that was applied.
type written struct {
	known
	moved bool
}

// swap writes one record on the writer's connection. What the old record was decides only whether others are told and whose
// name stays on it; whether it is replaced is decided by the statement itself.
func (s *Store) swap(l regent.Lease) (written, error) {
	writer := s.writer
	if l.Vacant() {
		writer = ""
	}
	if l.Rev == "" {
		// Any beginning will do. The time keeps revisions apart even when somebody has removed the whole file.
		rev := time.Now().UnixMicro()
		err := s.w.exec(s.w.insert, l.Name, rev, writer, s.w.record(l))
		return written{newKnown(rev, writer, l), true}, err
	}
	rev, err := strconv.ParseInt(l.Rev, 10, 64)
	var canonical [20]byte
	if err != nil || string(strconv.AppendInt(canonical[:0], rev, 10)) != l.Rev {
		return written{}, regent.ErrConflict // no revision of ours
	}
	old, err := s.recall(l.Name, rev)
	if err != nil {
		return written{}, err
	}
	if old.lease.Nonce == l.Nonce && !l.Vacant() {
		writer = old.writer
	}
	n := written{newKnown(rev+1, writer, l), writer != old.writer || l.Notable(old.lease)}
	if record := s.w.record(l); n.moved {
		err = s.w.exec(s.w.move, writer, record, l.Name, rev)
	} else {
		err = s.w.exec(s.w.renew, record, l.Name, rev)
	}
	return n, err
}

// known is what the driver remembers of a revision. A revision's record never changes, so that this cannot be out of date.
type known struct {
	rev    int64
	writer string
	lease  regent.Lease // what Notable, Gone and this driver look at, without the weight
}

// maxKnown bounds the memory of it.
const maxKnown = 1 << 15

func newKnown(rev int64, writer string, l regent.Lease) known {
	l.Data, l.Past = nil, nil
	return known{rev, writer, l}
}

func (s *Store) remember(k known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	if s.known[k.lease.Name].rev < k.rev {
		s.known[k.lease.Name] = k
	}
}

// recall returns what was in name at rev, from memory or from the database.
func (s *Store) recall(name string, rev int64) (known, error) {
	s.mu.Lock()
	k := s.known[name]
	s.mu.Unlock()
	if k.rev == rev {
		return k, nil
	}
	now, writer, record, err := s.w.read(name)
	if err != nil {
		return known{}, err
	}
	if now != rev {
		return known{}, regent.ErrConflict
	}
	l, err := regent.ParseLease(name, "", record)
	return newKnown(rev, writer, l), err
}

var background = context.Background()

// statement is what modernc's statements are.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// writeConn is the one connection that writes. It talks to the driver without database/sql: it needs no pool, and a renewal should
// cost little more than its fsync. Its calls carry no context, since an interrupted commit would be an unknown outcome for nothing.
type writeConn struct {
	conn driver.Conn
	// kept from one write to the next
	args    [4]driver.NamedValue
	buf     []byte
	applied []written

	begin, commit, insert, move, renew, look statement
}

const nextMoved = `(SELECT coalesce(max(moved), 0) + 1 FROM regent_lease)`

func openWriter(path string) (*writeConn, error) {
	connector, err := modernc.NewConnector(dsn(path, "mode=rw&_synchronous=FULL"))
	if err != nil {
		return nil, err
	}
	conn, err := connector.Connect(background)
	if err != nil {
		return nil, err
	}
	w := &writeConn{conn: conn}
	for _, p := range []struct {
		stmt *statement
		text string
	}{
		{&w.begin, `BEGIN IMMEDIATE`},
		{&w.commit, `COMMIT`},
		{&w.insert, `INSERT INTO regent_lease (name, rev, writer, record, moved) VALUES (?, ?, ?, ?, ` + nextMoved + `) ON CONFLICT (name) DO NOTHING`},
		{&w.move, `UPDATE regent_lease SET rev = rev + 1, writer = ?, record = ?, moved = ` + nextMoved + ` WHERE name = ? AND rev = ?`},
		{&w.renew, `UPDATE regent_lease SET rev = rev + 1, record = ? WHERE name = ? AND rev = ?`},
		{&w.look, `SELECT rev, writer, record FROM regent_lease WHERE name = ?`},
	} {
		stmt, err := conn.Prepare(p.text)
		if err != nil {
			_ = w.close()
			return nil, err
		}
		*p.stmt = stmt.(statement)
	}
	return w, nil
}

// maxKept is how many swaps of a batch, and how many bytes of a record, a connection keeps room for.
const maxKept = 4096

func (w *writeConn) record(l regent.Lease) string {
	buf := l.AppendJSON(w.buf[:0])
	if cap(buf) <= maxKept {
		w.buf = buf
	}
	return string(buf)
}

func (w *writeConn) bind(values ...driver.Value) []driver.NamedValue {
	for i, v := range values {
		w.args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return w.args[:len(values)]
}

// exec runs a statement that changes one row, or none: ErrConflict.
func (w *writeConn) exec(stmt statement, values ...driver.Value) error {
	res, err := stmt.ExecContext(background, w.bind(values...))
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return regent.ErrConflict
}

// read returns a register as the writer sees it, in its own transaction too; revision 0 if there is none.
func (w *writeConn) read(name string) (rev int64, writer string, record []byte, err error) {
	rows, err := w.look.QueryContext(background, w.bind(name))
	if err != nil {
		return 0, "", nil, err
	}
	defer rows.Close()
	var row [3]driver.Value
	if err := rows.Next(row[:]); err == io.EOF {
		return 0, "", nil, nil
	} else if err != nil {
		return 0, "", nil, err
	}
	rev, _ = row[0].(int64) // somebody's hand may have put anything there
	writer, _ = row[1].(string)
	text, _ := row[2].(string)
	return rev, writer, []byte(text), nil
}

func (w *writeConn) close() error {
	if w == nil || w.conn == nil {
		return nil
	}
	for _, stmt := range []statement{w.begin, w.commit, w.insert, w.move, w.renew, w.look} {
		if stmt != nil {
			_ = stmt.Close()
		}
	}
	return w.conn.Close()
}
