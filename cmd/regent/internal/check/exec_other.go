//go:build !unix

package check

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

const execSupported = false

// run returns an error: without process groups it could not end the processes that a program has started.
func (p *program) run(context.Context) (Outcome, error) {
	return Outcome{}, fmt.Errorf("exec is not supported on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
