package poll

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/cmd/regent/internal/nearest"
)

const (
	sizeMax     = 16 << 10 // of a definition as JSON, since a checkpoint holds many
	nameMax     = 100
	targetMax   = 2048
	intervalMin = Duration(time.Second)
	intervalMax = Duration(365 * 24 * time.Hour)
	timeoutMax  = Duration(24 * time.Hour)
)

const nameRule = "must be 1 to 100 of A-Z, a-z, 0-9, dot, underscore and hyphen, and not only dots, since it is part of addresses"

// faults collects what is wrong with one poll.
type faults struct {
	key  string // of the poll
	errs []error
}

// keyOf is how errors call a poll.
func keyOf(name string) string {
	if !validName(name) {
		name = strconv.Quote(name[:min(len(name), nameMax)])
	}
	return "polls." + name
}

func (f *faults) refuse(key, value, format string, args ...any) {
	f.errs = append(f.errs, &regent.ConfigError{Key: strings.TrimSuffix(f.key+"."+key, "."), Value: value, Rule: fmt.Sprintf(format, args...)})
}

// check refuses a value unless it is as it should be.
func (f *faults) check(ok bool, key string, value any, format string, args ...any) {
	if ok {
		return
	}
	shown := fmt.Sprint(value)
	if _, text := value.(string); text {
		shown = strconv.Quote(shown[:min(len(shown), 200)])
	}
	f.refuse(key, shown, format, args...)
}

// Validate returns every violated rule, joined, each as a [regent.ConfigError]. What is left out is not filled in: see WithDefaults.
func (p Poll) Validate() error {
	f := &faults{key: keyOf(p.Name)}
	f.check(validName(p.Name), "name", p.Name, nameRule)
	f.check(validName(p.Kind), "kind", p.Kind, "must be http, tcp, dns, icmp, exec, or the name of one that a worker registers")
	p.checkTarget(f)
	p.checkTimes(f)
	f.check(p.Retries >= 0 && p.Retries <= 10, "retries", p.Retries, "must be 0 to 10")
	f.check(p.Concurrency >= 1 && p.Concurrency <= 100, "concurrency", p.Concurrency, "must be 1 to 100")
	f.check(p.assignable(), "assign", p.Assign, assignRule)
	p.checkTimeout(f)
	if data, err := json.Marshal(p); err != nil || len(data) > sizeMax {
		f.refuse("", fmt.Sprintf("(%d bytes)", len(data)), "must be at most %d bytes as JSON", sizeMax)
	}
	return errors.Join(f.errs...)
}

// CheckKind refuses a poll whose kind no worker of this cluster can have: kinds are all that there are.
func (p Poll) CheckKind(kinds []string) error {
	if slices.Contains(kinds, p.Kind) {
		return nil
	}
	f := &faults{key: keyOf(p.Name)}
	rule := "must be one of " + strings.Join(kinds, ", ")
	if near := nearest.Name(p.Kind, kinds); near != "" {
		rule += ": did you mean " + near + "?"
	}
	f.check(false, "kind", p.Kind, "%s", rule)
	return f.errs[0]
}

func (p Poll) checkTarget(f *faults) {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if p.Target == "" || len(p.Target) > targetMax || strings.ContainsFunc(p.Target, control) {
		f.check(false, "target", check.Redact(p.Target), "must be 1 to %d bytes without control characters", targetMax)
		return
	}
	for _, fault := range check.Validate(p.Kind, p.Target, p.Options) {
		f.refuse(fault.Key, fault.Value, "%s", fault.Rule)
	}
}

// checkTimes is about when the poll is due.
func (p Poll) checkTimes(f *faults) {
	switch {
	case p.Cron != "" && p.Interval != 0:
		f.check(false, "cron", p.Cron, "cannot be combined with interval (%v): a poll has one of them", p.Interval)
	case p.Cron != "":
		if _, err := parseCron(p.Cron); err != nil {
			f.check(false, "cron", p.Cron, "%v", err)
		}
	default:
		f.check(p.Interval >= intervalMin && p.Interval <= intervalMax, "interval", p.Interval, "must be %v to %v, unless there is cron", intervalMin, intervalMax)
		f.check(p.Interval == p.Interval.truncate(), "interval", p.Interval, "must be whole milliseconds")
	}
	if p.TimeZone == "" {
		return
	}
	f.check(p.Cron != "", "timeZone", p.TimeZone, "needs cron: an interval is the same everywhere")
	_, err := loadZone(p.TimeZone)
	f.check(err == nil, "timeZone", p.TimeZone, zoneRule)
}

// checkTimeout refuses a poll that falls behind, run by run, for as long as its target hangs.
func (p Poll) checkTimeout(f *faults) {
	if p.Timeout < Duration(time.Millisecond) || p.Timeout > timeoutMax {
		f.check(false, "timeout", p.Timeout, "must be 1ms to %v", timeoutMax)
		return
	}
	if p.Cron != "" || len(f.errs) > 0 { // what follows compares values that make sense
		return
	}
	longest := p.Timeout * Duration(1+p.Retries)
	f.check(longest <= p.room(), "timeout", p.Timeout, "times 1 + retries (%d) is %v, which must be at most interval (%v) times concurrency (%d)",
		p.Retries, longest, p.Interval, p.Concurrency)
}

func validName(s string) bool {
	return s != "" && len(s) <= nameMax && strings.Trim(s, ".") != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-')
	})
}
