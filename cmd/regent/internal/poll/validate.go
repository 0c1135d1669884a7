package poll

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/cmd/regent/internal/nearest"
	"github.com/regentd/regent/cmd/regent/internal/schedule"
)

const (
	sizeMax     = 16 << 10 // of a definition as JSON, since a register of the store holds many
	nameMax     = 100
	targetMax   = 2048
	intervalMin = Duration(time.Second)
	intervalMax = Duration(365 * 24 * time.Hour)
	timeoutMax  = Duration(24 * time.Hour)
)

const nameRule = "must be 1 to 100 of A-Z, a-z, 0-9, dot, underscore and hyphen, and not only dots, " +
	"since it is part of URLs"

// Validate returns every violated rule, joined, each as a [regent.ConfigError]. It does not fill in defaults: see
// WithDefaults.
func (p Poll) Validate() error {
	v := newViolations(p.Name)
	v.check(validName(p.Name), "name", p.Name, nameRule)
	v.check(validName(p.Kind), "kind", p.Kind,
		"must be http, tcp, dns, icmp, exec, or the name of a kind that a worker registers")
	p.checkTarget(v)
	p.checkSchedule(v)
	v.check(p.Retries >= 0 && p.Retries <= 10, "retries", p.Retries, "must be 0 to 10")
	v.check(p.Concurrency >= 1 && p.Concurrency <= 100, "concurrency", p.Concurrency, "must be 1 to 100")
	v.check(p.validAssign(), "assign", p.Assign, assignRule)
	p.checkTimeout(v)

	if data, err := json.Marshal(p); err != nil || len(data) > sizeMax {
		v.refuse("", shown(fmt.Sprintf("(%d bytes)", len(data))), "must be at most %d bytes as JSON", sizeMax)
	}

	return v.err()
}

// CheckKind returns a [regent.ConfigError] if the kind of the poll is not one of kinds: no worker of the cluster can
// run it.
func (p Poll) CheckKind(kinds []string) error {
	if slices.Contains(kinds, p.Kind) {
		return nil
	}

	rule := "must be one of " + strings.Join(kinds, ", ")
	if near := nearest.Name(p.Kind, kinds); near != "" {
		rule += ": did you mean " + near + "?"
	}

	v := newViolations(p.Name)
	v.refuse("kind", p.Kind, "%s", rule)
	return v.first()
}

func (p Poll) checkTarget(v *violations) {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if p.Target == "" || len(p.Target) > targetMax || strings.ContainsFunc(p.Target, control) {
		v.refuse("target", check.Redact(p.Target), "must be 1 to %d bytes without control characters", targetMax)
		return
	}

	for _, fault := range check.Validate(p.Kind, p.Target, p.Options) {
		v.refuse(fault.Key, shown(fault.Value), "%s", fault.Rule)
	}
}

func (p Poll) checkSchedule(v *violations) {
	switch {
	case p.Cron != "" && p.Interval != 0:
		v.refuse("cron", p.Cron, "cannot be combined with interval (%v): a poll has one of them", p.Interval)
	case p.Cron != "":
		if _, err := schedule.ParseCron(p.Cron, time.UTC); err != nil {
			v.refuse("cron", p.Cron, "%v", err)
		}
	default:
		v.check(p.Interval >= intervalMin && p.Interval <= intervalMax, "interval", p.Interval,
			"must be %v to %v, unless cron is set", intervalMin, intervalMax)
		v.check(p.Interval == p.Interval.truncate(), "interval", p.Interval, "must be whole milliseconds")
	}

	if p.TimeZone == "" {
		return
	}
	v.check(p.Cron != "", "timeZone", p.TimeZone, "needs cron: an interval is the same in every zone")
	if _, err := schedule.LoadZone(p.TimeZone); err != nil {
		v.refuse("timeZone", p.TimeZone, "%v", err)
	}
}

// checkTimeout refuses a poll that falls behind its interval while its target does not answer.
func (p Poll) checkTimeout(v *violations) {
	if p.Timeout < Duration(time.Millisecond) || p.Timeout > timeoutMax {
		v.refuse("timeout", p.Timeout, "must be 1ms to %v", timeoutMax)
		return
	}
	if p.Cron != "" || len(v.errs) > 0 { // the next rule compares values that must be valid
		return
	}

	longest := p.Timeout * Duration(1+p.Retries)
	v.check(longest <= p.maxRunTime(), "timeout", p.Timeout,
		"times 1 + retries (%d) is %v, which must be at most interval (%v) times concurrency (%d)",
		p.Retries, longest, p.Interval, p.Concurrency)
}

func validName(s string) bool {
	if s == "" || len(s) > nameMax || strings.Trim(s, ".") == "" {
		return false
	}

	return !strings.ContainsFunc(s, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		digit := '0' <= r && r <= '9'
		return !letter && !digit && r != '.' && r != '_' && r != '-'
	})
}
