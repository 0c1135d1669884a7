package poll

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/regentd/regent"
)

// violations collects the rules that the definition of one poll breaks.
type violations struct {
	prefix string // of the keys in errors
	errs   []error
}

// newViolations returns an empty collection for the poll with a name, whose keys are polls.NAME.KEY in errors.
func newViolations(name string) *violations {
	return &violations{prefix: "polls." + printable(name)}
}

// shown is a value that an error shows without quotes.
type shown string

// maxShown is the most bytes of a string that an error shows.
const maxShown = 200

// refuse adds a violation. The key is empty if the rule is about the whole poll.
func (v *violations) refuse(key string, value any, format string, args ...any) {
	text := fmt.Sprint(value)
	if _, quoted := value.(string); quoted {
		text = strconv.Quote(text[:min(len(text), maxShown)])
	}

	v.errs = append(v.errs, &regent.ConfigError{
		Key:   strings.TrimSuffix(v.prefix+"."+key, "."),
		Value: text,
		Rule:  fmt.Sprintf(format, args...),
	})
}

// check adds a violation unless ok.
func (v *violations) check(ok bool, key string, value any, format string, args ...any) {
	if !ok {
		v.refuse(key, value, format, args...)
	}
}

// first returns the first violation, which must exist.
func (v *violations) first() error { return v.errs[0] }

// err returns all violations, joined, or nil.
func (v *violations) err() error { return errors.Join(v.errs...) }

// printable returns a name or key of a user as errors show it: quoted and cut unless it is valid.
func printable(name string) string {
	if validName(name) {
		return name
	}

	return strconv.Quote(name[:min(len(name), nameMax)])
}
