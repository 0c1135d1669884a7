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
	if err == nil || errors.Is(err, driver.ErrNotFound) || errors.Is(err, driver.ErrConflict) {
		return err
	}

	text := err.Error()
	if unclear(err) {
		text = requests(text)
	}
	if text = plainly(text); text == err.Error() {
		return err
	}
	return &plainError{err, text}
}

// unclear reports whether the text of an error has words of the standard library for a request that was given up.
func unclear(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded)
}

type plainError struct {
	error
	text string
}

func (e *plainError) Unwrap() error { return e.error }

func (e *plainError) Error() string { return e.text }

const noAnswer = "no answer in time"

// ownEnd is how a connection says that this process has closed it, because its answer was not waited for any longer.
var ownEnd = regexp.MustCompile(`: (?:(?:read|write) \S+ \S+: )?use of closed network connection`)

// fromWhom is an error that has said already that there is no answer.
var fromWhom = regexp.MustCompile(`(no answer from \S+): ` + noAnswer)

// requests puts the text of a request that was given up into plain words.
func requests(text string) string {
	text = ownEnd.ReplaceAllString(text, "")
	text = strings.NewReplacer(
		"context deadline exceeded: context canceled", noAnswer,
		"context deadline exceeded", noAnswer,
		"context canceled", "given up",
		"use of closed network connection", "the connection was closed",
		"i/o timeout", noAnswer,
	).Replace(text)

	text = fromWhom.ReplaceAllString(text, "$1 in time")
	for strings.Count(text, noAnswer) > 1 && strings.Contains(text, noAnswer+": ") {
		text = strings.Replace(text, noAnswer+": ", "", 1)
	}
	return text
}

// plainTexts are the texts of the standard library, of gRPC and of pgx for a connection that was not made or is lost,
// that of drivers for a list of all registers, and plain ones. Some of the former name an address three times.
var plainTexts = []struct {
	found *regexp.Regexp
	plain string
}{
	{regexp.MustCompile(`rpc error: code = Unavailable desc = connection error: ` +
		`desc = "transport: Error while dialing: ([^"]*)"`), "$1"},
	{regexp.MustCompile(`(?:connect: )?(?:hostname resolving error: )?(?:dial tcp: )?lookup (\S+?)(?: on \S+)?: ` +
		`no such host`), "there is no host named $1"},
	{regexp.MustCompile(`(there is no host named \S+); there is no host named \S+`), "$1"},
	{regexp.MustCompile(`(?:\S+ \(\S+\): dial error: |connect: )?dial (?:tcp|unix) (\S+): (?:connect: )?`),
		"no connection to $1: "},
	{regexp.MustCompile(`(?:read|write) tcp \S+->(\S+): (?:read|write): (?:connection reset by peer|broken pipe)`),
		"$1 has closed the connection"},
	{regexp.MustCompile(`\blist "": `), "list all registers: "},
}

// plainly puts a text into plain words.
func plainly(text string) string {
	for _, c := range plainTexts {
		text = c.found.ReplaceAllString(text, c.plain)
	}
	return text
}
