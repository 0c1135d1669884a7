package postgres

import (
	"context"
	"fmt"

	"github.com/regentd/regent/driver"
)

// uniqueIndex returns the expression that is true if the table c has a unique index of exactly these columns, an array
// of names in alphabetical order.
func uniqueIndex(columns string) string {
	return `EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid
		AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL AND ` + columns + ` = (
			SELECT array_agg(a.attname::text ORDER BY a.attname)
			FROM unnest(string_to_array(i.indkey::text, ' ')) WITH ORDINALITY AS k(num, at)
			JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.num::int
			WHERE k.at <= i.indnkeyatts))`
}

// checkIndexes returns an error unless the table has what its statements rely on: a table that was copied, or that a
// migration has created, may have the columns alone.
func (s *Store) checkIndexes(ctx context.Context) error {
	var names, epochs, logged bool
	var collation string
	row := s.db.queryRow(ctx, `SELECT `+uniqueIndex(`ARRAY['name']`)+`, `+uniqueIndex(`ARRAY['epoch', 'name']`)+`,
		c.relpersistence = 'p', coalesce((SELECT l.collname::text FROM pg_attribute a
			JOIN pg_collation l ON l.oid = a.attcollation WHERE a.attrelid = c.oid AND a.attname = 'name'), '')
		FROM pg_class c WHERE c.oid = to_regclass($1)`, s.opts.Table)
	if err := row(&names, &epochs, &logged, &collation); err != nil {
		return s.explain(ctx, err)
	}

	why := ""
	switch {
	case !names:
		why = "no unique index on (name), so that two members could create one register"
	case !epochs:
		why = "no unique index on (name, epoch), so that postgres.Fence would not hold back a claim"
	case collation != "C" && collation != "POSIX":
		why = fmt.Sprintf("the collation %q for name, so that lists would leave out registers: it must be \"C\"",
			collation)
	}
	if why != "" {
		return driver.Refused(fmt.Errorf("%s: table %s has %s: create it with the statements of postgres.Schema",
			s.location, s.opts.Table, why))
	}

	if !logged {
		s.opts.OnWarning(fmt.Sprintf("table %s is unlogged or temporary: a crash of the server empties it, and with "+
			"it all epochs; run ALTER TABLE %s SET LOGGED", s.opts.Table, s.opts.Table))
	}
	return nil
}
