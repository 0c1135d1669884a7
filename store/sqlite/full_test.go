package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/regentd/regent/driver"
)

// TestFullDatabase fills a real database, whose size is limited as a disk is.
func TestFullDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "full.db")
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // the limit is of a connection

	if _, err := db.ExecContext(t.Context(), "PRAGMA max_page_count = 8; CREATE TABLE t (b BLOB)"); err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "INSERT INTO t VALUES (zeroblob(1000000))")
	if got := driver.ProblemOf(explain(path, err)); got != driver.ProblemFull {
		t.Errorf("%v is %q, want %q", err, got, driver.ProblemFull)
	}
}
