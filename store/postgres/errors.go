package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/regentd/regent/driver"
)

// Codes of PostgreSQL's errors.
const (
	codeReadOnly      = "25006" // the server became a replica, or is read-only
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeDuplicate     = "23505"
	codeDuplicateName = "42P07"
	codeDuplicateType = "42710"
	codeUnknownTable  = "42P01"
	codePrivilege     = "42501"
	codeDiskFull      = "53100"
	codeLocked        = "55P03" // lock_timeout
	codeNoPassword    = "28P01"
	codeNoLogin       = "28000"
	codeNoDatabase    = "3D000"
	codeUnknownOption = "42704" // a key of the address that the server does not know
	codeProtocol      = "08P01"
	codeNoStatement   = "26000" // a prepared statement that the session does not have
	codeHasStatement  = "42P05" // one that it has already
)

// sqlState is an error with a code of PostgreSQL: of pgx, or of another driver.
type sqlState interface{ SQLState() string }

// code returns the code of an error; empty if it has none.
func code(err error) string {
	var e sqlState
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// undone reports whether the server has undone a statement because of what others did at the same time. It was not
// applied, so it can be sent again.
func undone(err error) bool {
	return slices.Contains([]string{codeDeadlock, codeSerialization}, code(err))
}

// alreadyThere reports whether another session has just created what this one wanted to create.
func alreadyThere(err error) bool {
	return slices.Contains([]string{codeDuplicate, codeDuplicateName, codeDuplicateType}, code(err))
}

// unsupported reports whether a pooler has refused a connection because of a parameter that it does not know.
func unsupported(err error) bool {
	return code(err) == codeProtocol && strings.Contains(err.Error(), "unsupported startup parameter")
}

// advise adds what to do to an error of the server, and marks the errors for which a retry does not help. After an
// error that shows a server without writes it closes all connections: a former primary keeps them open, and a new
// connection finds the new one.
func (s *Store) advise(err error) error {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		err = &connectError{err}
	}

	switch c := code(err); {
	case c == codeReadOnly, errors.Is(err, errRecovery):
		s.db.reset()
		return driver.WithProblem(driver.ProblemReadOnly,
			fmt.Errorf("the server accepts no writes now; connecting again: %w", err))
	case c == codeDiskFull:
		return driver.WithProblem(driver.ProblemFull, err)
	case strings.Contains(err.Error(), "read only connection"): // as pgx says, which has no code for it
		return driver.WithProblem(driver.ProblemReadOnly, err)
	case c == codeLocked:
		return fmt.Errorf("a transaction of the former leader under postgres.Fence is still open: %w", err)
	case c == codeNoStatement, c == codeHasStatement:
		return fmt.Errorf("is there a pooler in transaction mode (PgBouncer) in between? Add "+
			"default_query_exec_mode=exec to the address: %w", err)
	case c == codeUnknownTable:
		return driver.Refused(fmt.Errorf("a node creates the table when it starts, or somebody with the statements of "+
			"postgres.Schema: %w", err))
	case c == codePrivilege:
		err = fmt.Errorf("docs/STORES.md lists what the user must be able to do: %w", err)
		return driver.Refused(driver.WithProblem(driver.ProblemPermission, err))
	case c == codeNoPassword, c == codeNoLogin:
		return driver.Refused(driver.WithProblem(driver.ProblemLogin, err))
	case c == codeNoDatabase, c == codeUnknownOption:
		return driver.Refused(err)
	}
	return err
}

// connectError is an error of pgx, which names each attempt on a line of its own, on one line. Attempts that failed
// because the server has no TLS are left out, if there was another one without it.
type connectError struct{ error }

func (e *connectError) Error() string {
	lines := strings.Split(e.error.Error(), "\n")
	kept := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return strings.Contains(line, "server refused TLS connection")
	})
	if len(kept) < 2 { // the first line says what was tried
		kept = lines
	}

	var said []string // each attempt once: with sslmode=prefer there are two at one server
	for _, line := range kept {
		if line = strings.Join(strings.Fields(line), " "); line != "" && !slices.Contains(said, line) {
			said = append(said, line)
		}
	}
	first, attempts := said[0], strings.Join(said[1:], "; ")
	return strings.TrimSuffix(first+" "+attempts, " ")
}

func (e *connectError) Unwrap() error { return e.error }
