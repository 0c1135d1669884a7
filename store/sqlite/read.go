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
	// listPage is how many records List reads at once. Between pages it holds neither a connection nor a snapshot, so that
	// the caller may take its time and call the store.
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
	return func(yield func(driver.Record, error) bool) {
		from, page := prefix, make([]driver.Outcome, 0, listPage)
		for {
			s.sent.Add("list")
			err := s.read(ctx, func() (err error) {
				page, err = s.listFrom(ctx, page[:0], from, prefix)
				return err
			})
			if err != nil {
				yield(driver.Record{}, fmt.Errorf("list %q: %w", prefix, err))
				return
			}
			for _, o := range page {
				if !yield(o.Record, o.Err) {
					return
				}
			}
			if len(page) < listPage {
				return
			}
			from = page[len(page)-1].Record.Name + "\x00"
		}
	}
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

// parse makes a record of the columns of its row. Somebody's hand may have put anything there,
// which is then an error of this register alone.
func (s *Store) parse(name string, rev, writer any, record []byte) (driver.Record, error) {
	at, ok := revision(rev)
	if !ok {
		return driver.Record{}, fmt.Errorf("%s: the revision of %q is %v, which is none", s.path, name, rev)
	}
	l, err := driver.ParseRecord(name, at, record)
	if err != nil {
		return driver.Record{}, fmt.Errorf("%s: %w", s.path, err)
	}
	s.remember(newKnown(at, textOf(writer), l))
	return l, nil
}

// revision returns what the column rev holds. It is a number in a database of version 1, which may
// be restored at any time.
func revision(column any) (rev string, ok bool) {
	switch v := column.(type) {
	case string:
		return v, v != ""
	case int64:
		return strconv.FormatInt(v, 10), true
	}
	return "", false
}

// textOf returns what a column holds if it is text.
func textOf(column any) string {
	s, _ := column.(string)
	return s
}

// bytesOf returns what a column holds if it is text or a blob.
func bytesOf(column any) []byte {
	if b, ok := column.([]byte); ok {
		return b
	}
	return []byte(textOf(column))
}

// read runs f on the readers, again while the database is busy (recovery after a crash, the last process closing it).
func (s *Store) read(ctx context.Context, f func() error) error {
	if err := s.usable(); err != nil {
		return err
	}
	err := retry(ctx, f)
	if err != nil && s.usable() != nil {
		return s.usable() // "sql: database is closed" would hide it
	}
	return s.located(err)
}

// Gone implements [driver.Witness]. It is false for a vacant record, and for one that is no longer there to be looked up.
func (s *Store) Gone(ctx context.Context, l driver.Record) bool {
	if l.Vacant() || s.self == (process{}) {
		return false
	}
	s.mu.Lock()
	k, closed := s.known[l.Name], s.closed
	s.mu.Unlock()
	if closed {
		return false
	}
	if k.rev != l.Rev {
		now, err := s.Get(ctx, l.Name)
		if err != nil || now.Rev != l.Rev {
			return false
		}
		s.mu.Lock()
		k = s.known[l.Name]
		s.mu.Unlock()
	}
	p, ok := parseProcess(k.writer)
	return ok && k.rev == l.Rev && p.dead(s.self)
}
