package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// newRole creates a user who owns nothing, and returns its name and its address of the shared server.
func newRole(t *testing.T) (role, url string) {
	role = "role_" + newTable(t)
	run(t, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() { run(t, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	return role, strings.Replace(shared.URL(), "postgres@", role+"@", 1)
}

// granted runs the statements that an error advises, each from its first word to its last.
func granted(t *testing.T, err error, first, last string) {
	t.Helper()
	if !errors.Is(err, driver.ErrRefused) {
		t.Fatalf("%v, want ErrRefused", err)
	}
	_, advice, ok := strings.Cut(err.Error(), first)
	end := strings.Index(advice, last)
	if !ok || end < 0 {
		t.Fatalf("%v: it has no statement from %q to %q", err, first, last)
	}
	run(t, first+advice[:end]+last)
}

// TestMissingTable reads a store without a table: it is empty, stays without a table, and shows what another process
// writes later.
func TestMissingTable(t *testing.T) {
	ctx := t.Context()
	table := newTable(t)
	_, url := newRole(t)
	for _, addr := range []string{url, shared.URL()} {
		s := storetest.Opened[*Store](t)(Open(ctx, addr, Options{Table: table, AllowMissing: true}))
		if _, err := s.Get(ctx, "a"); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("Get: %v, want ErrNotFound", err)
		}
		for l, err := range s.List(ctx, "") {
			t.Errorf("List: %v, %v, want nothing", l, err)
		}
		known := held("a", "x", 1)
		known.Rev = "1"
		if out := s.Refresh(ctx, []driver.Record{known}); !errors.Is(out[0].Err, driver.ErrNotFound) {
			t.Errorf("Refresh: %v, want ErrNotFound", out[0])
		}
		if _, err := s.Swap(ctx, held("a", "x", 1)); !errors.Is(err, driver.ErrRefused) ||
			!strings.Contains(err.Error(), "a node creates the table") {
			t.Errorf("Swap: %v, want ErrRefused", err)
		}
	}

	var found *string
	if err := connect(t, shared.URL()).QueryRow(ctx, "SELECT to_regclass($1)::text", table).Scan(&found); err != nil ||
		found != nil {
		t.Fatalf("the table was created: %v", err)
	}

	reader := open(t, Options{Table: table, AllowMissing: true})
	written := storetest.Swap(t, open(t, Options{Table: table}), held("a", "x", 1))
	if l, err := reader.Get(ctx, "a"); err != nil || l.Rev != written.Rev {
		t.Errorf("Get: %v, %v, want what was written later", l, err)
	}
	n := 0
	for _, err := range reader.List(ctx, "") {
		if err != nil {
			t.Error(err)
		}
		n++
	}
	if out := reader.Refresh(ctx, []driver.Record{written}); n != 1 || out[0].Err != nil {
		t.Errorf("List shows %d registers; Refresh: %v", n, out[0].Err)
	}
}

// TestGrants does what the errors of a user without rights advise.
func TestGrants(t *testing.T) {
	t.Run("a_table_of_another_user", func(t *testing.T) {
		table := newTable(t)
		open(t, Options{Table: table})
		role, url := newRole(t)

		_, err := Open(t.Context(), url, Options{Table: table})
		want := "user " + role + " must have SELECT, INSERT, UPDATE, DELETE on table " + table +
			": let its owner, postgres, run:"
		if err == nil || !strings.Contains(err.Error(), want) || driver.ProblemOf(err) != driver.ProblemPermission {
			t.Fatal(err)
		}
		granted(t, err, "GRANT", role)
		storetest.Swap(t, storetest.Opened[*Store](t)(Open(t.Context(), url, Options{Table: table})), held("a", "x", 1))
	})

	t.Run("a_schema_in_which_this_user_may_not_create", func(t *testing.T) {
		run(t, "CREATE SCHEMA closed")
		t.Cleanup(func() { run(t, "DROP SCHEMA closed CASCADE") })
		role, url := newRole(t)
		run(t, "GRANT USAGE ON SCHEMA closed TO "+role)

		for _, opts := range []Options{{Table: "closed.r"}, {Table: "closed.r", NoCreate: true}} {
			_, err := Open(t.Context(), url, opts)
			if errors.Is(err, ErrNoTable) || !errors.Is(err, driver.ErrRefused) ||
				!strings.Contains(err.Error(), "GRANT SELECT, INSERT, UPDATE, DELETE ON closed.r TO "+role) {
				t.Errorf("%+v: %v", opts, err)
			}
		}
		_, err := Open(t.Context(), url, Options{Table: "closed.r"})
		granted(t, err, "GRANT CREATE", role)
		if _, err := Open(t.Context(), url, Options{Table: "closed.r", NoCreate: true}); !errors.Is(err, ErrNoTable) {
			t.Errorf("NoCreate, for a user who may create: %v, want ErrNoTable", err)
		}
		storetest.Opened[*Store](t)(Open(t.Context(), url, Options{Table: "closed.r"}))
	})

	t.Run("a_schema_that_is_not_there", func(t *testing.T) {
		role, url := newRole(t)
		_, err := Open(t.Context(), url, Options{Table: "nowhere.r"})
		granted(t, err, "CREATE SCHEMA nowhere", role)
		t.Cleanup(func() { run(t, "DROP SCHEMA nowhere CASCADE") })
		storetest.Opened[*Store](t)(Open(t.Context(), url, Options{Table: "nowhere.r"}))
	})
}
