package redis

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

// refusals are the parts of a server's answers that stay as they are until somebody changes the server or the address.
func refusals() []string {
	return []string{
		"WRONGPASS", "NOAUTH", "NOPERM",
		"AUTH <password> called without any password configured", // before 7.0 with words of its own around it
		"DB index is out of range",
	}
}

// denials are the words with which a server says, in a script or outside of one, that a user may not run a command.
func denials() []string {
	return []string{"NOPERM", "ACL failure", "has no permissions", "can't run this command", "can't access"}
}

// refusal makes an [driver.ErrRefused] of an error that says so. Any other it returns as it is.
func refusal(err error) error {
	var answer *rueidis.RedisError
	if !errors.As(err, &answer) || errors.Is(err, driver.ErrRefused) {
		return err
	}
	for _, part := range refusals() {
		if strings.Contains(answer.Error(), part) {
			return driver.Refused(err)
		}
	}
	return err
}

func refusef(format string, args ...any) error { return driver.Refused(fmt.Errorf(format, args...)) }
