package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/regentd/regent/driver"
)

// refreshPage is how many registers one statement of Refresh reads, so that no snapshot is open for long.
const refreshPage = 5000

// refreshQuery takes an object of names and known revisions. It returns the registers with another revision or with
// none, and those that were never written: their rev is NULL.
const refreshQuery = `SELECT k.key, l.rev, l.writer, l.record
	FROM json_each(?) k LEFT JOIN regent_lease l ON l.name = k.key
	WHERE l.rev IS NULL OR l.rev <> k.value OR l.rev = ''`

// Refresh implements [driver.Refresher] with one statement for every 5,000 registers. It reads the records only of
// registers whose revision has changed. It is as current as Get, because each statement starts a snapshot of its own.
func (s *Store) Refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	return driver.RefreshPages(known, refreshPage, func(page []driver.Record) (map[string]driver.Outcome, error) {
		var changed map[string]driver.Outcome
		s.sent.Add("refresh")
		err := s.read(ctx, func() (err error) {
			changed, err = s.changedSince(ctx, page)
			return err
		})
		return changed, err
	})
}

// changedSince returns, by name, the registers that do not have the revision of the known record.
func (s *Store) changedSince(ctx context.Context, known []driver.Record) (map[string]driver.Outcome, error) {
	rows, err := s.refresh.QueryContext(ctx, revisionsOf(known))
	if err != nil {
		return nil, err
	}
	defer rows.Close()

	changed := map[string]driver.Outcome{}
	for rows.Next() {
		var name string
		var rev, writer any
		var record sql.RawBytes
		if err := rows.Scan(&name, &rev, &writer, &record); err != nil {
			return nil, err
		}

		var o driver.Outcome
		if rev == nil {
			o.Err = fmt.Errorf("refresh %q: %w", name, driver.ErrNotFound)
		} else {
			o.Record, o.Err = s.parse(name, rev, writer, record)
		}

		changed[name] = o
	}

	return changed, rows.Err()
}

// revisionsOf returns names and revisions as a JSON object. A name may be in it twice.
func revisionsOf(known []driver.Record) string {
	b := make([]byte, 0, 64*len(known))
	for i, l := range known {
		b = append(b, "{,"[min(i, 1)])
		b = appendJSON(b, l.Name)
		b = append(b, ':')
		b = appendJSON(b, l.Rev)
	}
	return string(append(b, '}'))
}

// appendJSON appends s as a JSON string.
func appendJSON(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}

	return append(b, '"')
}
