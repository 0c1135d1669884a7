package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

// Validate reports what is wrong with an address, without contacting anybody. Open would refuse it in the same words.
func Validate(addr string) error {
	if _, err := parseAddress(addr, Options{}); err != nil {
		return fmt.Errorf("store %s: %w", redact(addr), driver.Refused(err))
	}
	return nil
}

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

// CheckElection reports whether the keys of an election can be Regent's. They cannot if one of them holds something else than
// a string: that is an [driver.ErrRefused]. A string without an expiry is a warning: it may be another program's lock, which
// Regent respects until it is deleted.
func (s *Store) CheckElection(ctx context.Context, name string) (warning string, err error) {
	const advice = "choose another name for the election, or add ?prefix=NAME to the store's address"
	seat := string(s.appendKey(nil, name))

	l, err := s.Get(ctx, name)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return "", nil
	case errors.Is(err, errUnreadable) && !errors.Is(err, driver.ErrRefused):
		return "", refusef("election %q: the key {%s}:regent holds something that is not Regent's: %s: %w", name, seat, advice, err)
	case err != nil:
		return "", err
	case l.Holder.Incarnation != foreigner:
		return "", nil
	case l.Holder.ID == otherType:
		return "", refusef("election %q: the key %s holds another program's data (WRONGTYPE): %s", name, seat, advice)
	}

	if _, mark, _ := strings.Cut(l.Rev, "~"); strings.Contains(mark, ".") {
		return "", nil // it expires
	}
	return fmt.Sprintf("election %q: the key %s holds %.40q without an expiry, which is not Regent's: nobody leads before it "+
		"is deleted; if it is no lock, %s", name, seat, l.Holder.ID, advice), nil
}

// otherType is what get.lua shows as the holder of a seat whose key is no string.
const otherType = "(not a string)"
