package nats

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/regentd/regent/driver"
)

// ErrNoStream says that there is no stream: no node has used it yet.
var ErrNoStream = errors.New("there is no such stream: no node has used it yet")

// Codes of JetStream that its client does not name.
const (
	codeNoPeers           jetstream.ErrorCode = 10005
	codeNotAvailable      jetstream.ErrorCode = 10008
	codeSequenceNotFound  jetstream.ErrorCode = 10043
	codeInvalidConfig     jetstream.ErrorCode = 10052
	codeWrongStream       jetstream.ErrorCode = 10060
	codeSubjectsOverlap   jetstream.ErrorCode = 10065
	codeReplicasOfOne     jetstream.ErrorCode = 10074
	codeDuplicateUnderWay jetstream.ErrorCode = 10158
)

func codeOf(err error) jetstream.ErrorCode {
	var e *jetstream.APIError
	if errors.As(err, &e) {
		return e.ErrorCode
	}
	return 0
}

// explain adds the address to an error, says what to do, and marks an error for which a retry does not help.
func (s *Store) explain(ctx context.Context, err error) error {
	if s.closed.Load() && !errors.Is(err, driver.ErrClosed) {
		return fmt.Errorf("%w: %w", driver.ErrClosed, err)
	}
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if s.conn != nil && errors.Is(err, nats.ErrReconnectBufExceeded) {
		err = s.whyAway()
	}
	return fmt.Errorf("%s: %w", s, advise(err))
}

// whyAway returns why there is no connection. The client itself says that its buffer, which has no room, is full.
func (s *Store) whyAway() error {
	if last := s.conn.LastError(); last != nil && !errors.Is(last, nats.ErrReconnectBufExceeded) {
		return fmt.Errorf("%w: %w", errLinkLost, last)
	}
	return errLinkLost
}

// advise adds what to do to an error of a server.
func advise(err error) error {
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired),
		errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrAccountAuthExpired):
		return driver.Refused(driver.WithProblem(driver.ProblemLogin, err))
	case errors.Is(err, nats.ErrPermissionViolation):
		return driver.Refused(driver.WithProblem(driver.ProblemPermission, fmt.Errorf("the user needs permission for "+
			"the subjects of the stream; docs/STORES.md lists them: %w", err)))
	case errors.Is(err, nats.ErrSecureConnRequired):
		return driver.Refused(fmt.Errorf("the server asks for TLS: use tls=true: %w", err))
	case errors.Is(err, nats.ErrSecureConnWanted):
		return driver.Refused(fmt.Errorf("the server does not speak TLS: leave out tls, ca, cert, key and "+
			"serverName: %w", err))
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return fmt.Errorf("nobody answers for the stream: its leader is being elected, or a majority of its "+
			"replicas is away, or JetStream is off, or nobody has the domain that the address names: %w", err)
	case errors.Is(err, nats.ErrMaxPayload):
		return driver.Refused(fmt.Errorf("the server takes messages of up to max_payload bytes; the largest record "+
			"has about 100 kB: %w", err))
	}

	switch codeOf(err) {
	case jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		return driver.Refused(fmt.Errorf("turn JetStream on for the account: %w", err))
	case codeNoPeers:
		return fmt.Errorf("the cluster has fewer servers than the stream needs replicas: start them, or name "+
			"another number with replicas=: %w", err)
	case codeReplicasOfOne:
		return driver.Refused(fmt.Errorf("a server that is no cluster holds one replica: use replicas=1: %w", err))
	case codeInvalidConfig, codeSubjectsOverlap, codeWrongStream, jetstream.JSErrCodeStreamNameInUse:
		return driver.Refused(err)
	}
	return err
}
