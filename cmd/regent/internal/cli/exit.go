// Package cli has what the commands of regent share: help, errors with exit codes, and the commands that show and steer
// a cluster. They ask a node, or the store itself.
package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit codes, besides those of a program under 'regent run'. Those above 1 are the codes of sysexits.h.
const (
	ExitFailure     = 1
	ExitUsage       = 64
	ExitUnreachable = 69 // neither a node nor a store was reached
	ExitNotDone     = 75 // not done within the timeout
	ExitConfig      = 78
)

// ExitError is an error with an exit code of its own.
type ExitError struct {
	Code int
	Err  error // nil to print nothing
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the error without its code.
func (e *ExitError) Unwrap() error { return e.Err }

// ErrUsage means that the command line makes no sense.
var ErrUsage = errors.New("see 'regent help'")

// ErrUnused means that a store has no database or no table yet. The first node creates it.
var ErrUnused = errors.New("no node has used it yet")

// usageError is an [ErrUsage] that names the command whose help to read.
type usageError struct{ text, command string }

func (e *usageError) Error() string { return fmt.Sprintf("%s: see '%s --help'", e.text, e.command) }

// Is makes the error an [ErrUsage].
func (e *usageError) Is(target error) bool { return target == ErrUsage }

// UsageError returns an [ErrUsage] about the arguments of a command.
func UsageError(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...), cmd.CommandPath()}
}
