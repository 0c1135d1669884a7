// Package plain puts errors of stores into the words of whoever is paged: the standard library names what has failed in
// a program, not what has happened to a request.
package plain

import (
	"context"
	"errors"
	"net"
	"os"
	"regexp"
	"strings"

	"github.com/regentd/regent/driver"
)

// Error returns an error with the same chain and a plain text. Errors that say all that is to say stay as they are.
func Error(err error) error {
	if err == nil || errors.Is(err, driver.ErrNotFound) || errors.Is(err, driver.ErrConflict) || !unclear(err) {
		return err
	}
	var done *plainError
	if errors.As(err, &done) {
		return err
	}
	return &plainError{err}
}

// unclear reports whether the text of an error has words of the standard library for a request that was given up.
func unclear(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded)
}

type plainError struct{ error }

func (e *plainError) Unwrap() error { return e.error }

const noAnswer = "no answer in time"

// ownEnd is how a connection says that this process has closed it, because its answer was not waited for any longer.
var ownEnd = regexp.MustCompile(`: (?:(?:read|write) \S+ \S+: )?use of closed network connection`)

// fromWhom is an error that has said already that there is no answer.
var fromWhom = regexp.MustCompile(`(no answer from \S+): ` + noAnswer)

func (e *plainError) Error() string {
	text := ownEnd.ReplaceAllString(e.error.Error(), "")
	text = strings.NewReplacer(
		"context deadline exceeded: context canceled", noAnswer,
		"context deadline exceeded", noAnswer,
		"context canceled", "given up",
		"use of closed network connection", "the connection was closed",
	).Replace(text)

	text = fromWhom.ReplaceAllString(text, "$1 in time")
	for again := noAnswer + ": " + noAnswer; strings.Contains(text, again); {
		text = strings.ReplaceAll(text, again, noAnswer)
	}
	return text
}
