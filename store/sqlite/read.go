package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/regentd/regent/driver"
)

const (
	readConns = 4
	// listPage is how many records List reads in one query. Between pages it holds neither a connection nor a snapshot,
	// so the caller may be slow, and may call the store.
	listPage = 256
)

// Get implements [driver.Store].
func (s *Store) Get(ctx context.Context, name string) (driver.Record, error) {
	var rev, writer any
	var record []byte
	s.sent.Add("get")
	err := s.read(ctx, func() error { return s.get.QueryRowContext(ctx, name).Scan(&rev, &writer, &record) })
	if errors.Is(err, sql.ErrNoRows) {
		err = driver.ErrNotFound
	}
	if err != nil {
		return driver.Record{}, fmt.Errorf("get %q: %w", name, err)
	}
	return s.parse(name, rev, writer, record)
}

// List implements [driver.Store]. It yields in the order of the names' bytes.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return driver.ListPages(prefix, listPage, func(after string) (page []driver.Outcome, err error) {
		from := prefix
		if after != "" {
			from = after + "\x00"
		}

		s.sent.Add("list")
		err = s.read(ctx, func() (err error) {
			page, err = s.listFrom(ctx, page[:0], from, prefix)
			return err
		})
		return page, err
	})
}

// listFrom reads a page. No name has the byte 0xff, so the range is exact, whatever the prefix ends with.
func (s *Store) listFrom(ctx context.Context, page []driver.Outcome, from, prefix string) ([]driver.Outcome, error) {
	rows, err := s.list.QueryContext(ctx, from, prefix+"\xff", listPage)
	if err != nil {
		return page, err
	}
	defer rows.Close()

	for rows.Next() {
		var name string
		var rev, writer any
		var record sql.RawBytes
		if err := rows.Scan(&name, &rev, &writer, &record); err != nil {
			return page, err
		}

		l, err := s.parse(name, rev, writer, record)
		if err != nil {
			l = driver.Record{Name: name}
		}

		page = append(page, driver.Outcome{Record: l, Err: err})
	}

	return page, rows.Err()
}

// parse returns the record in a row. Other programs may have written anything there: that is an error of this register
// only.
func (s *Store) parse(name string, rev, writer any, record []byte) (driver.Record, error) {
	at, ok := revision(rev)
	if !ok {
		return driver.Record{}, fmt.Errorf("%s: the revision of %q is %v, which is not valid", s.path, name, rev)
	}

	l, err := driver.ParseRecord(name, at, record)
	if err != nil {
		return driver.Record{}, fmt.Errorf("%s: %w", s.path, err)
	}

	s.remember(newKnown(at, textOf(writer), l))
	return l, nil
}

// revision returns the value of the column rev. It is a number in a database of version 1, which may be restored at any
// time.
func revision(column any) (rev string, ok bool) {
	switch v := column.(type) {
	case string:
		return v, v != ""
	case int64:
		return strconv.FormatInt(v, 10), true
	}
	return "", false
}

// textOf returns the value of a column if it is text.
func textOf(column any) string {
	s, _ := column.(string)
	return s
}

// bytesOf returns the value of a column if it is text or a blob.
func bytesOf(column any) []byte {
	if b, ok := column.([]byte); ok {
		return b
	}
	return []byte(textOf(column))
}

// read runs f on the readers, and retries while the database is busy (recovery after a crash, the last process closing
// it).
func (s *Store) read(ctx context.Context, f func() error) error {
	if err := s.checkFile(); err != nil {
		return err
	}
	err := retry(ctx, f)
	if err != nil && s.checkFile() != nil {
		return s.checkFile() // clearer than "sql: database is closed"
	}

	err = s.withPath(err)
	if code(err) == codeInterrupt && ctx.Err() != nil { // the end of ctx has interrupted it
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}
