package compare

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/regentd/regent/bench/internal/port"
)

// errNoPostgres means that PostgreSQL is not installed. Figures are made without it.
var errNoPostgres = errors.New("PostgreSQL was left out: it is not installed ('scripts/install postgresql')")

// postgresBinary returns the path of a program of PostgreSQL: of the newest version that Debian has installed, or from
// PATH.
func postgresBinary(name string) (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) > 0 {
		return slices.Max(found), nil
	}

	path, err := exec.LookPath(name)
	if err != nil {
		return "", errNoPostgres
	}

	return path, nil
}

// postgres starts a server and returns its address.
func (l *lab) postgres(ctx context.Context) (string, error) {
	initdb, err1 := postgresBinary("initdb")
	server, err2 := postgresBinary("postgres")
	if err := errors.Join(err1, err2); err != nil {
		return "", errNoPostgres
	}

	dir, err := l.subdir("postgres")
	if err != nil {
		return "", err
	}

	data := filepath.Join(dir, "data")
	create := exec.CommandContext(ctx, initdb, "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale=C",
		"--no-sync")
	create.Dir = dir
	dieWithUs(create, syscall.SIGKILL)

	if err := asNobody(create, dir); err != nil {
		return "", err
	}
	if output, err := create.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, output)
	}

	free := port.Free()
	cmd := exec.Command(server, "-D", data, "-p", strconv.Itoa(free), "-k", dir, "-h", "127.0.0.1", "-F", "-N", "1000")
	dieWithUs(cmd, syscall.SIGQUIT) // at which it ends its own processes, and itself

	if err := asNobody(cmd, dir); err != nil {
		return "", err
	}

	addr := fmt.Sprintf("postgres://bench@127.0.0.1:%d/postgres?sslmode=disable", free)
	return addr, l.launch(cmd, dir, func() error {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()

		conn, err := pgx.Connect(short, addr)
		if err != nil {
			return err
		}

		return conn.Close(ctx)
	})
}
