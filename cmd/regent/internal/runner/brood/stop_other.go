//go:build !unix

package brood

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// There are no process groups here, and package runner starts nothing.

// Stop does nothing.
func (Brood) Stop(time.Duration, func()) {}

// Kill says that it cannot.
func (Brood) Kill(context.Context) error { return errors.ErrUnsupported }

// Signal says that it cannot.
func (Brood) Signal(syscall.Signal) error { return errors.ErrUnsupported }

// Continue does nothing.
func (Brood) Continue() {}
