package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/regentd/regent/driver"
	modernc "modernc.org/sqlite"
)

// locate returns the path from which SQLite derives the names of its side files, or why there can be no store.
func locate(path string) (string, error) {
	real, err := resolve(path)
	if err == nil {
		err = checkFileSystem(real)
	}
	if err != nil {
		return "", driver.Refused(err)
	}
	return real, nil
}

// Locate returns the absolute path of the database that Open would open, without opening or creating it. It returns the
// error that Open would return for an unusable path.
func Locate(path string) (string, error) {
	real, err := locate(path)
	if err != nil {
		return "", fmt.Errorf("store %q: %w", path, err)
	}
	return real, nil
}

// resolve returns the path from which SQLite derives the names of its side files.
func resolve(path string) (string, error) {
	if path == "" || path == ":memory:" || strings.HasPrefix(path, "file:") {
		return "", errors.New("the path must be the name of a file (a store in memory has the address memory:, or " +
			"package memstore)")
	}

	dir, err := filepath.Abs(filepath.Dir(path))
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("its directory must exist: %w", err)
	}

	real := filepath.Join(dir, filepath.Base(path))
	switch info, err := os.Lstat(real); {
	case errors.Is(err, fs.ErrNotExist):
		return real, nil
	case err != nil:
		return "", err
	case info.Mode()&fs.ModeSymlink != 0:
		if real, err = filepath.EvalSymlinks(real); err != nil {
			return "", fmt.Errorf("it is a broken symbolic link: %w", err)
		}
	}

	switch info, err := os.Stat(real); {
	case err != nil:
		return "", err
	case info.IsDir():
		return "", errors.New("it is a directory: name a file in it, for example " + filepath.Join(real, "regent.db"))
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("it must be a regular file (mode %s)", info.Mode().Type())
	}

	return real, nil
}

// dsn returns the file's name for modernc. SQLite's own busy handler knows no context, so retry does the waiting.
func dsn(path, query string) string {
	escaped := (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
	if !strings.HasPrefix(escaped, "/") { // C:/ on Windows
		escaped = "/" + escaped
	}
	return "file:" + escaped + "?_busy_timeout=0&_error_rc=1&" + query
}

// prepareFile creates or migrates the schema. It checks first, and leaves another program's database unchanged.
func prepareFile(ctx context.Context, path string) error {
	connector, err := modernc.NewConnector(dsn(path, "mode=rw&_synchronous=FULL&_txlock=immediate"))
	if err != nil {
		return err
	}

	db := sql.OpenDB(connector)
	defer db.Close()

	db.SetMaxOpenConns(1)
	if err := checkSchema(ctx, db); err != nil {
		return err
	}

	var journal string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&journal); err != nil {
		return err
	}

	if journal != "wal" {
		return fmt.Errorf("%s: journal_mode stays %q, it must be WAL", path, journal)
	}

	tx, err := db.BeginTx(ctx, nil) // IMMEDIATE: fails here if the file cannot be written
	if err != nil {
		return err
	}
	defer tx.Rollback()

	// Once more under the lock, because another process may have changed the file meanwhile.
	there, version, err := versionOf(ctx, tx)
	if err != nil {
		return err
	}

	change := ""
	switch {
	case !there:
		change = schema
	case version == 1:
		change = migrate
	default:
		// If SQLite cannot write the file, it makes this a read transaction without an error. A write of nothing finds
		// out.
		_, err := tx.ExecContext(ctx, "DELETE FROM regent_lease WHERE 0")
		return err
	}

	if _, err := tx.ExecContext(ctx, change); err != nil {
		return err
	}
	return tx.Commit()
}

// versionOf reports whether Regent's table is in the database, and the value of user_version.
func versionOf(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (there bool, version int, err error) {
	err = db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM sqlite_schema WHERE name = 'regent_lease'), user_version
		FROM pragma_user_version`).Scan(&there, &version)
	return there, version, err
}

func checkSchema(ctx context.Context, db *sql.DB) error {
	there, version, err := versionOf(ctx, db)
	if err != nil {
		return err
	}

	var encoding string
	if err := db.QueryRowContext(ctx, `PRAGMA encoding`).Scan(&encoding); err != nil {
		return err
	}

	switch {
	case encoding != "UTF-8":
		return driver.Refused(fmt.Errorf("the database is in %s, it must be in UTF-8: use another file", encoding))
	case !there && version != 0:
		return driver.Refused(driver.WithProblem(driver.ProblemForeign, fmt.Errorf(
			"the database belongs to another program (user_version %d, no table regent_lease): use another file",
			version)))
	case there && version > schemaVersion:
		return driver.Refused(fmt.Errorf(
			"user_version is %d, this version of Regent supports at most %d: a newer version has written it, "+
				"upgrade this one", version, schemaVersion))
	case there && version < 1:
		return driver.Refused(fmt.Errorf("user_version is %d, it must be %d: another program has changed it", version,
			schemaVersion))
	}

	return nil
}
