package driver

import (
	"errors"
	"fmt"
	"testing"
)

func TestProblem(t *testing.T) {
	cause := errors.New("no such user")
	err := fmt.Errorf("open store: %w", Refused(WithProblem(ProblemLogin, cause)))
	if got := ProblemOf(err); got != ProblemLogin {
		t.Errorf("%q", got)
	}
	if !errors.Is(err, cause) || !errors.Is(err, ErrRefused) || err.Error() != "open store: no such user" {
		t.Errorf("the chain or the text is another: %v", err)
	}
	if got := ProblemOf(cause); got != "" {
		t.Errorf("%q of an error without one", got)
	}
	if got := ProblemOf(nil); got != "" {
		t.Errorf("%q of no error", got)
	}
}
