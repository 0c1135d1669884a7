package driver

import "errors"

var (
	// ErrNotFound says that a register was never written.
	ErrNotFound = errors.New("register not found")
	// ErrConflict says that a swap was not applied, since the register has moved on.
	ErrConflict = errors.New("revision has moved")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrRefused says that the store, or what was said of it, cannot work as it is: a bad address, a wrong password, a lack of
	// permissions, a file that cannot be written. To try again is of no use before somebody has changed something. Drivers
	// return it from Open and from requests: see [Refused].
	ErrRefused = errors.New("store refuses this process")
)

// Refused returns an error that says the same as err and is an [ErrRefused] too, for drivers.
func Refused(err error) error { return &refusedError{err} }

type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

func (e *refusedError) Is(target error) bool { return target == ErrRefused }
