package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/regentd/regent/driver"
)

// checkRights returns an error unless this user may use the table. The error has the statement that grants what is
// missing.
func (s *Store) checkRights(ctx context.Context) error {
	var user, owner, table, missing string
	row := s.db.queryRow(ctx, `SELECT quote_ident(current_user), quote_ident(pg_get_userbyid(c.relowner)),
		c.oid::regclass::text,
		(SELECT coalesce(string_agg(p, ', '), '') FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p
			WHERE NOT has_table_privilege(c.oid, p))
		FROM pg_class c WHERE c.oid = to_regclass($1)`, s.opts.Table)
	if err := row(&user, &owner, &table, &missing); err != nil {
		return s.explain(ctx, err)
	}
	if missing == "" {
		return nil
	}

	err := fmt.Errorf("%suser %s must have %s on table %s: let its owner, %s, run: GRANT %s ON %s TO %s", s.where(),
		user, missing, table, owner, missing, table, user)
	return driver.Refused(driver.WithProblem(driver.ProblemPermission, err))
}

// mayCreate returns an error that says what to do if there is no table and this user may not create it. Otherwise it
// returns err.
func (s *Store) mayCreate(ctx context.Context, err error) error {
	wanted, _, ok := strings.Cut(s.opts.Table, ".")
	if !ok {
		wanted = ""
	}

	var user, schema string
	var may bool
	row := s.db.queryRow(ctx, `SELECT quote_ident(current_user), coalesce(quote_ident(n.nspname), ''),
		coalesce(has_schema_privilege(n.oid, 'CREATE'), false)
		FROM (SELECT) AS one LEFT JOIN pg_namespace n ON n.nspname = coalesce(nullif($1::text, ''), current_schema())`,
		wanted)
	if failed := row(&user, &schema, &may); failed != nil || may {
		return err // it says more than that this user could not be asked for
	}

	var text string
	switch {
	case schema != "":
		text = fmt.Sprintf("user %s may not create it in schema %s: run GRANT CREATE ON SCHEMA %s TO %s, or", user,
			schema, schema, user)
	case wanted != "":
		text = fmt.Sprintf("there is no schema %s: run CREATE SCHEMA %s AUTHORIZATION %s, or", wanted, wanted, user)
	default:
		text = fmt.Sprintf("no schema of the search_path of user %s is there: name one, as table=public.%s, or", user,
			s.opts.Table)
	}
	err = fmt.Errorf("%sthere is no table %s, and %s create the table with the statements of postgres.Schema and run "+
		"GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %s", s.where(), s.opts.Table, text, s.opts.Table, user)
	return driver.Refused(driver.WithProblem(driver.ProblemPermission, err))
}

// missing returns nil instead of an error that means that there is no table, if the store was opened to be read without
// one. Such a store has no registers. A replica may lack a table that the primary has.
func (s *Store) missing(ctx context.Context, err error) error {
	if !s.opts.AllowMissing || code(err) != codeUnknownTable {
		return err
	}

	var recovery bool
	if err := s.db.queryRow(ctx, "SELECT pg_is_in_recovery()")(&recovery); err != nil {
		return err
	}
	if recovery {
		return errRecovery
	}
	return nil
}
