package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// TestIncompleteTable opens tables that have the right columns, and not what the statements rely on.
func TestIncompleteTable(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"without_a_primary_key", "PRIMARY KEY", "NOT NULL", "no unique index on (name),"},
		{"without_the_key_of_fences", ",\n\tUNIQUE (name, epoch)", "", "no unique index on (name, epoch)"},
		{"with_a_key_that_is_checked_later", "UNIQUE (name, epoch)", "UNIQUE (name, epoch) DEFERRABLE",
			"no unique index on (name, epoch)"},
		{"with_a_key_of_more_columns", "PRIMARY KEY", "NOT NULL, UNIQUE (name, rev)", "no unique index on (name),"},
		{"with_another_order_of_names", `COLLATE "C"`, "", `the collation "default"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable(t)
			schema, err := Schema(table)
			if err != nil {
				t.Fatal(err)
			}
			run(t, strings.Replace(schema, c.old, c.new, 1))
			_, err = Open(t.Context(), shared.URL(), Options{Table: table})
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Open: %v, want ErrRefused with %q", err, c.want)
			}
		})
	}
}

// TestOwnIndexes opens a table with an index that carries a column of its own, and one that a crash empties.
func TestOwnIndexes(t *testing.T) {
	table := newTable(t)
	schema, err := Schema(table)
	if err != nil {
		t.Fatal(err)
	}
	schema = strings.Replace(schema, "PRIMARY KEY", "NOT NULL, PRIMARY KEY (name) INCLUDE (rev)", 1)
	run(t, strings.Replace(schema, "CREATE TABLE", "CREATE UNLOGGED TABLE", 1))

	var warned []string
	warn := func(w string) { warned = append(warned, w) }
	s := storetest.Opened[*Store](t)(Open(t.Context(), shared.URL(), Options{Table: table, OnWarning: warn}))
	storetest.Swap(t, s, held("a", "x", 1))
	if all := strings.Join(warned, "; "); !strings.Contains(all, "is unlogged") {
		t.Errorf("warned of %q", all)
	}
}
