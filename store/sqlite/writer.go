package sqlite

import (
	sqldriver "database/sql/driver"
	"io"

	"github.com/regentd/regent/driver"
	modernc "modernc.org/sqlite"
)

// statement is the interface of modernc's statements.
type statement interface {
	sqldriver.Stmt
	sqldriver.StmtExecContext
	sqldriver.StmtQueryContext
}

// writeConn is the only connection that writes. It uses the driver without database/sql: it needs no pool, and a
// renewal should cost little more than its fsync. Its calls have no context, because an interrupted commit would only
// add an unknown outcome.
type writeConn struct {
	conn sqldriver.Conn
	// Reused from one write to the next.
	args    [6]sqldriver.NamedValue
	buf     []byte
	applied []written

	begin, commit, insert, move, renew, remove, find statement
}

// maxMoved is larger than every valid value of moved. Any other value, text included, was written by another program
// and is skipped.
const maxMoved = `4611686018427387904`

// nextMoved takes the time in microseconds, so that a change after a restore is later than all changes before it.
const nextMoved = `max(?, (
	SELECT CAST(coalesce(max(moved), 0) AS INTEGER) + 1 FROM regent_lease WHERE moved < ` + maxMoved + `))`

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
		{&w.insert, `INSERT INTO regent_lease (name, rev, writer, record, moved) VALUES (?, ?, ?, ?, ` + nextMoved + `)
			ON CONFLICT (name) DO NOTHING`},
		{&w.move, `UPDATE regent_lease SET rev = ?, writer = ?, record = ?, moved = ` + nextMoved + `
			WHERE name = ? AND rev = ?`},
		{&w.renew, `UPDATE regent_lease SET rev = ?, record = ? WHERE name = ? AND rev = ?`},
		{&w.remove, `DELETE FROM regent_lease WHERE name = ? AND rev = ?`},
		{&w.find, `SELECT rev, writer, record FROM regent_lease WHERE name = ?`},
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

func (w *writeConn) record(l driver.Record) string {
	buf := l.AppendJSON(w.buf[:0])
	if cap(buf) <= maxKept {
		w.buf = buf
	}
	return string(buf)
}

func (w *writeConn) bind(values ...sqldriver.Value) []sqldriver.NamedValue {
	for i, v := range values {
		w.args[i] = sqldriver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return w.args[:len(values)]
}

// exec runs a statement that changes one row. It returns ErrConflict if it changes none.
func (w *writeConn) exec(stmt statement, values ...sqldriver.Value) error {
	res, err := stmt.ExecContext(background, w.bind(values...))
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return driver.ErrConflict
}

// read returns revision, writer and record of a register in the writer's transaction; all nil if there is none.
func (w *writeConn) read(name string) (row [3]sqldriver.Value, err error) {
	rows, err := w.find.QueryContext(background, w.bind(name))
	if err != nil {
		return row, err
	}
	defer rows.Close()

	if err := rows.Next(row[:]); err != nil && err != io.EOF {
		return row, err
	}
	return row, nil
}

func (w *writeConn) close() error {
	if w == nil || w.conn == nil {
		return nil
	}

	for _, stmt := range []statement{w.begin, w.commit, w.insert, w.move, w.renew, w.remove, w.find} {
		if stmt != nil {
			_ = stmt.Close()
		}
	}
	return w.conn.Close()
}
