package driver

import "errors"

// Problem is what is wrong with a store, for programs that say what to do about it.
type Problem string

const (
	ProblemLogin      Problem = "login"      // the store refuses the user, the password or the key
	ProblemPermission Problem = "permission" // the user may not do all that is needed
	ProblemFile       Problem = "file"       // this user may not write a file or its directory
	ProblemForeign    Problem = "foreign"    // what is there belongs to another program
	ProblemFull       Problem = "full"       // there is no room for a write
	ProblemReadOnly   Problem = "read-only"  // the server accepts no writes: it is a replica
)

// WithProblem wraps err so that [ProblemOf] returns p for it. The text stays the same.
func WithProblem(p Problem, err error) error { return &problemError{err, p} }

// ProblemOf returns what is wrong with a store, as its driver says; empty if it does not.
func ProblemOf(err error) Problem {
	var e *problemError
	if errors.As(err, &e) {
		return e.problem
	}
	return ""
}

type problemError struct {
	error
	problem Problem
}

func (e *problemError) Unwrap() error { return e.error }
