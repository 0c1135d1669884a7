package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/regentd/regent/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusOf returns what an API server has answered, or nil if the error is of another kind.
func statusOf(err error) *metav1.Status {
	var e apierrors.APIStatus
	if !errors.As(err, &e) {
		return nil
	}
	s := e.Status()
	return &s
}

// refusedSwap reports whether an API server has not applied a write because the Lease is not what the write expects.
// Every other error leaves open whether it was applied, or is a refusal for another reason.
func refusedSwap(err error) bool {
	s := statusOf(err)
	if s == nil || s.Details == nil || apierrors.IsUnexpectedServerError(err) { // the answer may be that of a proxy
		return false
	}

	switch s.Code {
	case http.StatusConflict: // Conflict, AlreadyExists
		return true
	case http.StatusNotFound: // the Lease is gone; for a missing namespace see [missingNamespace]
		return s.Details.Kind == "leases"
	case http.StatusUnprocessableEntity: // a test of the patch does not hold; a Lease that is not valid names its kind
		return s.Details.Kind == "" && len(s.Details.Causes) == 0
	}
	return false
}

// missingNamespace reports whether a request has failed because there is no such namespace.
func missingNamespace(err error) bool {
	s := statusOf(err)
	return s != nil && s.Code == http.StatusNotFound && s.Details != nil && s.Details.Kind == "namespaces"
}

// away reports whether no API server has answered.
func away(err error) bool { return err != nil && statusOf(err) == nil }

// explain adds the address to an error, says what to do, and marks an error for which a retry does not help.
func (s *Store) explain(ctx context.Context, err error) error {
	if s.closed.Load() && !errors.Is(err, driver.ErrClosed) {
		return fmt.Errorf("%w: %w", driver.ErrClosed, err)
	}
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return fmt.Errorf("%s: %w", s, s.advise(err))
}

// advise adds what to do to an error of the server.
func (s *Store) advise(err error) error {
	switch {
	case apierrors.IsUnauthorized(err):
		return driver.Refused(driver.WithProblem(driver.ProblemLogin, fmt.Errorf("the API server does not know this "+
			"user: the token or the certificate is wrong or has expired: %w", err)))
	case apierrors.IsForbidden(err):
		return driver.Refused(driver.WithProblem(driver.ProblemPermission, fmt.Errorf("the user needs get, list, "+
			"watch, create and patch on leases of coordination.k8s.io in namespace %s; "+
			"deploy/kubernetes-rbac.yaml has the role: %w", s.addr.namespace, err)))
	case missingNamespace(err):
		return driver.Refused(fmt.Errorf("create the namespace, or name another one: %w", err))
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err):
		return driver.Refused(fmt.Errorf("the API server refuses the Lease: %w", err))
	}
	return err
}
