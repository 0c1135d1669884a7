package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/regentd/regent/driver"
)

const (
	// listPage is how many registers one statement of List reads.
	listPage = 1000
	// refreshPage is how many registers one statement of Refresh compares.
	refreshPage = 5000
)

// Get implements [driver.Store].
func (s *Store) Get(ctx context.Context, name string) (driver.Record, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return driver.Record{}, fmt.Errorf("get %q: %w", name, err)
	}
	defer done()

	s.sent.Add("get")
	var rev, record string
	var recovery bool
	err = s.missing(ctx, twice(ctx, func() error {
		return s.db.queryRow(ctx, s.sql.get, name)(&rev, &record, &recovery)
	}))
	if err != nil {
		return driver.Record{}, fmt.Errorf("get %q: %w", name, s.explain(ctx, err))
	}

	switch {
	case recovery:
		return driver.Record{}, fmt.Errorf("get %q: %w", name, s.explain(ctx, errRecovery))
	case rev == "":
		return driver.Record{}, fmt.Errorf("get %q: %w", name, driver.ErrNotFound)
	}

	l, err := driver.ParseRecord(name, rev, []byte(record))
	if err != nil {
		return driver.Record{}, fmt.Errorf("get %q: %s: %w", name, s.location, err)
	}
	return l, nil
}

// rows runs a statement that reads rows. It calls begin before the first row, of each attempt.
func (s *Store) rows(
	ctx context.Context, begin func(), each func(scan func(...any) error) error, text string, args ...any,
) error {
	return twice(ctx, func() error {
		begin()
		return s.db.query(ctx, each, text, args...)
	})
}

// twice runs a read, and runs it once more if its connection has timed out while the caller still waits. That is the
// timeout of the call before: pgx reads ahead while a write is slow, and if the context of that call ends then, the
// error stays in the connection for whoever uses it next. A write is not repeated: its outcome is unknown. A read that
// could not connect in time is not repeated either.
func twice(ctx context.Context, read func() error) error {
	err := read()
	var connect *pgconn.ConnectError
	if pgconn.Timeout(err) && !errors.As(err, &connect) && ctx.Err() == nil {
		err = read()
	}
	return err
}

// List implements [driver.Store] with one statement for every 1,000 registers.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return driver.ListPages(prefix, listPage, func(after string) ([]driver.Outcome, error) {
		return s.listPage(ctx, after, prefix)
	})
}

// listPage returns the registers below prefix after a name.
func (s *Store) listPage(ctx context.Context, after, prefix string) ([]driver.Outcome, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()

	s.sent.Add("list")
	var page []driver.Outcome
	err = s.rows(ctx, func() { page = nil }, func(scan func(...any) error) error {
		var name, rev, record string
		var recovery bool
		if err := scan(&name, &rev, &record, &recovery); err != nil {
			return err
		}
		switch {
		case recovery:
			return errRecovery
		case name == "":
			return nil
		}

		l, err := driver.ParseRecord(name, rev, []byte(record))
		if err != nil {
			l = driver.Record{Name: name}
			err = fmt.Errorf("%s: %w", s.location, err)
		}
		page = append(page, driver.Outcome{Record: l, Err: err})
		return nil
	}, s.sql.list, after, prefix, ceilingOf(prefix), listPage)
	if err = s.missing(ctx, err); err != nil {
		return nil, s.explain(ctx, err)
	}
	return page, nil
}

// ceilingOf returns a name that is after every name with the prefix: no name has more than 250 bytes, and no
// character is after U+10FFFF, which has four.
func ceilingOf(prefix string) string {
	return prefix + strings.Repeat("\U0010ffff", driver.MaxName/4+1)
}

// Refresh implements [driver.Refresher] with one statement for every 5,000 registers. It transfers only the registers
// whose revision has changed.
func (s *Store) Refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	return driver.RefreshPages(known, refreshPage, func(page []driver.Record) (map[string]driver.Outcome, error) {
		return s.changedSince(ctx, page)
	})
}

// changedSince returns, by name, the registers that do not have the revision of the known record.
func (s *Store) changedSince(ctx context.Context, known []driver.Record) (map[string]driver.Outcome, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()

	names := make([]string, len(known))
	revs := make([]string, len(known))
	for i, l := range known {
		names[i], revs[i] = l.Name, l.Rev
	}

	s.sent.Add("refresh")
	changed := map[string]driver.Outcome{}
	err = s.rows(ctx, func() { clear(changed) }, func(scan func(...any) error) error {
		var name, rev, record string
		var recovery bool
		if err := scan(&name, &rev, &record, &recovery); err != nil {
			return err
		}

		var o driver.Outcome
		switch {
		case recovery:
			return errRecovery
		case name == "":
			return nil
		case rev == "":
			o.Err = fmt.Errorf("refresh %q: %w", name, driver.ErrNotFound)
		default:
			o.Record, o.Err = driver.ParseRecord(name, rev, []byte(record))
		}
		changed[name] = o
		return nil
	}, s.sql.refresh, array(names), array(revs))
	failed := err != nil
	if err = s.missing(ctx, err); err != nil {
		return nil, s.explain(ctx, err)
	}

	if failed { // there is no table
		for _, name := range names {
			changed[name] = driver.Outcome{Err: fmt.Errorf("refresh %q: %w", name, driver.ErrNotFound)}
		}
	}
	return changed, nil
}
