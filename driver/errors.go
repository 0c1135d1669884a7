package driver

import "errors"

var (
	// ErrNotFound is returned for a register that was never written.
	ErrNotFound = errors.New("register not found")
	// ErrConflict is returned if a swap was not applied because the register has another revision.
	ErrConflict = errors.New("revision has moved")
	// ErrClosed is returned by calls after Close.
	ErrClosed = errors.New("store is closed")
	// ErrRefused is returned if a store cannot work until somebody changes something: a bad address, a wrong password,
	// missing permissions, a file that cannot be written. A retry does not help. Drivers return it from Open and from
	// requests: see [Refused].
	ErrRefused = errors.New("store refuses this process")
	// ErrCredentials is returned if a process has no credentials for a store. A retry may help: an instance or a
	// container may get its role later.
	ErrCredentials = errors.New("no credentials")
)

// Refused wraps err so that it is also an [ErrRefused]. The text stays the same.
func Refused(err error) error { return &refusedError{err} }

type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

func (e *refusedError) Is(target error) bool { return target == ErrRefused }
