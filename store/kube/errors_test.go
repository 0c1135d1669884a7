package kube

import (
	"errors"
	"net/http"
	"testing"

	"github.com/regentd/regent/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOutcomes(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	namespaces := schema.GroupResource{Resource: "namespaces"}
	kind := schema.GroupKind{Group: leases.Group, Kind: "Lease"}
	failedTest := apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
		"testing value /metadata/uid failed", 0, false)
	proxy := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "PATCH", leases, "a", "", 0, true)
	}

	for _, c := range []struct {
		what              string
		err               error
		conflict, refused bool
	}{
		{"another resourceVersion", apierrors.NewConflict(leases, "a", errors.New("x")), true, false},
		{"a Lease that is there already", apierrors.NewAlreadyExists(leases, "a"), true, false},
		{"a Lease that is gone", apierrors.NewNotFound(leases, "a"), true, false},
		{"a test of the patch", failedTest, true, false},
		{"a missing namespace", apierrors.NewNotFound(namespaces, "a"), false, true},
		{"an invalid Lease", apierrors.NewInvalid(kind, "a", nil), false, true},
		{"a missing permission", apierrors.NewForbidden(leases, "a", errors.New("x")), false, true},
		{"an unknown user", apierrors.NewUnauthorized("x"), false, true},
		{"too many requests", apierrors.NewTooManyRequests("x", 1), false, false},
		{"a timeout", apierrors.NewServerTimeout(leases, "patch", 1), false, false},
		{"a gateway's timeout", apierrors.NewTimeoutError("x", 1), false, false},
		{"an internal error", apierrors.NewInternalError(errors.New("x")), false, false},
		{"a conflict that a proxy made up", proxy(http.StatusConflict), false, false},
		{"a 404 of a proxy", proxy(http.StatusNotFound), false, false},
		{"no answer", errors.New("connection reset by peer"), false, false},
	} {
		s := &Store{addr: &address{namespace: "n"}}
		if got := refusedSwap(c.err); got != c.conflict {
			t.Errorf("%s is a conflict: %v", c.what, got)
		}
		if c.conflict {
			continue
		}
		if got := errors.Is(s.explain(t.Context(), c.err), driver.ErrRefused); got != c.refused {
			t.Errorf("%s is a refusal: %v", c.what, got)
		}
		want := map[string]driver.Problem{
			"a missing permission": driver.ProblemPermission, "an unknown user": driver.ProblemLogin,
		}[c.what]
		if got := driver.ProblemOf(s.explain(t.Context(), c.err)); got != want {
			t.Errorf("%s is the problem %q, want %q", c.what, got, want)
		}
	}
}
