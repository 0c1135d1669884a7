package redis

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

// refusals returns substrings of errors that last until somebody changes the server or the address.
func refusals() []string {
	return []string{
		"WRONGPASS", "NOAUTH", "NOPERM",
		"AUTH <password> called without any password configured", // before 7.0 with a prefix
		"DB index is out of range",
	}
}

// denials returns substrings of errors, in a script or outside of one, about a command that the user may not run.
func denials() []string {
	return []string{"NOPERM", "ACL failure", "has no permissions", "can't run this command", "can't access"}
}

// markRefused wraps an error that is one of refusals as a [driver.ErrRefused]. It returns any other error unchanged.
func markRefused(err error) error {
	var answer *rueidis.RedisError
	if !errors.As(err, &answer) || errors.Is(err, driver.ErrRefused) {
		return err
	}

	err = withProblem(answer.Error(), err)
	for _, part := range refusals() {
		if strings.Contains(answer.Error(), part) {
			return driver.Refused(err)
		}
	}
	return err
}

// withProblem adds what is wrong with the server to an error, as the text of its answer says.
func withProblem(answer string, err error) error {
	says := func(part string) bool { return strings.Contains(answer, part) }
	switch {
	case slices.ContainsFunc(denials(), says):
		return driver.WithProblem(driver.ProblemPermission, err)
	case says("WRONGPASS"), says("NOAUTH"), says("without any password"):
		return driver.WithProblem(driver.ProblemLogin, err)
	case says("OOM "), says("MISCONF"):
		return driver.WithProblem(driver.ProblemFull, err)
	case says("READONLY"):
		return driver.WithProblem(driver.ProblemReadOnly, err)
	case says("WRONGTYPE"):
		return driver.WithProblem(driver.ProblemForeign, err)
	}
	return err
}

func refusef(format string, args ...any) error { return driver.Refused(fmt.Errorf(format, args...)) }
