package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/regentd/regent/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errLearner is the answer of a member that does not vote yet.
var errLearner = rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)

// codeOf returns the gRPC code of an error.
func codeOf(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

// away reports whether a member could not be asked, has not answered, or cannot answer now. Another member may.
func away(err error) bool {
	return err != nil && (codeOf(err) == codes.Unavailable || errors.Is(rpctypes.Error(err), errLearner))
}

// loggedOut reports whether a request was refused, and not applied, because the log-in is not known any more.
func (s *Store) loggedOut(err error) bool {
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) ||
		errors.Is(err, rpctypes.ErrUserEmpty) && s.addr.password != ""
}

// explain adds the address to an error, says what to do, and marks an error for which a retry does not help.
func (s *Store) explain(ctx context.Context, err error) error {
	if s.closed.Load() && !errors.Is(err, driver.ErrClosed) {
		return fmt.Errorf("%w: %w", driver.ErrClosed, err)
	}
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if s.leaderless.Load() && !errors.Is(err, rpctypes.ErrNoLeader) { // one member knows why, and another one was asked
		err = fmt.Errorf("%w; the last answer was: %w", err, rpctypes.ErrNoLeader)
	}
	return fmt.Errorf("%s: %w", s, advise(err))
}

// plainError is an error of a connection in the words of the network alone. gRPC and etcd's client put their own around
// them: rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: …"
type plainError struct{ error }

func (e plainError) Error() string {
	text := status.Convert(e.error).Message()
	if _, inner, ok := strings.Cut(text, `connection error: desc = "`); ok {
		text = strings.TrimSuffix(inner, `"`)
	}
	text = strings.TrimPrefix(text, "transport: Error while dialing: ")
	if cause, ok := strings.CutPrefix(text, "error reading server preface: "); ok {
		text = "a server took the connection, and did not answer as etcd does: " + cause
	}
	return text
}

func (e plainError) Unwrap() error { return e.error }

// advise adds what to do to an error of the server. An error other than a refused log-in or permission does not show
// whether a write was applied. That holds for an exceeded quota too: etcd applies the transaction that exceeds it, and
// answers with an error.
func advise(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return driver.WithProblem(driver.ProblemFull, fmt.Errorf("the cluster's quota is exceeded, so it accepts no "+
			"writes: compact and defragment it, then 'etcdctl alarm disarm': %w", err))
	case errors.Is(err, rpctypes.ErrNoLeader):
		return fmt.Errorf("the cluster has no leader, which takes a majority of its members: start those that are "+
			"down, and see that they reach each other: %w", err)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return driver.Refused(driver.WithProblem(driver.ProblemPermission, fmt.Errorf("the user needs a role with "+
			"readwrite permission for the prefix; docs/STORES.md shows it: %w", err)))
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return driver.Refused(driver.WithProblem(driver.ProblemLogin,
			fmt.Errorf("the cluster asks for a user and a password: %w", err)))
	case errors.Is(err, rpctypes.ErrAuthFailed):
		return driver.Refused(driver.WithProblem(driver.ProblemLogin, err))
	case status.Code(err) == codes.Unavailable:
		return plainError{err}
	}
	return err
}
