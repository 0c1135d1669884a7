package sqlite

import (
	sqldriver "database/sql/driver"
	"io"

	"github.com/regentd/regent/driver"
	modernc "modernc.org/sqlite"
)

// statement is what modernc's statements are.
type statement interface {
	sqldriver.Stmt
	sqldriver.StmtExecContext
	sqldriver.StmtQueryContext
}

// writeConn is the one connection that writes. It talks to the driver without database/sql: it needs no pool, and a renewal should
// cost little more than its fsync. Its calls carry no context, since an interrupted commit would be an unknown outcome for nothing.
type writeConn struct {
	conn sqldriver.Conn
	// kept from one write to the next
	args    [6]sqldriver.NamedValue
	buf     []byte
	applied []written

	begin, commit, insert, move, renew, remove, look statement
}

// maxMoved is beyond every change. Whatever is not below it, text included, was put there by
// somebody else and is left out.
const maxMoved = `4611686018427387904`

// nextMoved takes the time in microseconds, so that what moves after a restore is later than all
// that moved before it.
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

// exec runs a statement that changes one row, or none: ErrConflict.
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

// read returns revision, writer and record of a register as the writer sees it, in its own
// transaction too; all nil if there is none.
func (w *writeConn) read(name string) (row [3]sqldriver.Value, err error) {
	rows, err := w.look.QueryContext(background, w.bind(name))
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
	for _, stmt := range []statement{w.begin, w.commit, w.insert, w.move, w.renew, w.remove, w.look} {
		if stmt != nil {
			_ = stmt.Close()
		}
	}
	return w.conn.Close()
}
