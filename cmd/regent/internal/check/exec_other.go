//go:build !unix

package check

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

const execSupported = false

// run refuses, since without process groups what a program has started could not be ended.
func (p *program) run(context.Context) (Outcome, error) {
	return Outcome{}, fmt.Errorf("exec is not supported on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
