// Package poll defines polls: checks that workers run once per slot of a schedule.
//
// A [Poll] is defined in the configuration file ([FromYAML]) or through the API ([Decode]). It says what to check,
// when, and on which workers. [Store] keeps the polls that were defined through the API. Package orchestrate runs
// them.
package poll

import (
	"maps"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/cmd/regent/internal/schedule"
)

// Poll is a check that is run once per slot of its schedule. Its JSON is that of the store; [Answer] is that of the
// API.
type Poll struct {
	Name        string            `json:"name"`
	Kind        string            `json:"kind"` // http, tcp, dns, icmp, exec, or a kind that a worker registers
	Target      string            `json:"target"`
	Interval    Duration          `json:"interval,omitzero"`     // at least 1s; a poll has this or Cron
	Cron        string            `json:"cron,omitempty"`        // a poll has this or Interval
	TimeZone    string            `json:"timeZone,omitempty"`    // of Cron; UTC if empty
	Timeout     Duration          `json:"timeout,omitzero"`      // of one attempt
	Retries     int               `json:"retries,omitempty"`     // further attempts, on other workers if there are any
	Assign      string            `json:"assign,omitempty"`      // any, node:NAME, or label:k=v,k2=v2
	Concurrency int               `json:"concurrency,omitempty"` // most runs of this poll at the same time
	Enabled     bool              `json:"enabled"`
	Options     map[string]string `json:"options,omitempty"` // of the kind
	Since       time.Time         `json:"since,omitzero"`    // slots are due after this time; set by the leader
}

// DefaultTimeout is the timeout of an attempt if the interval leaves room for it.
const DefaultTimeout = Duration(10 * time.Second)

// WithDefaults returns the poll with defaults for missing values: Assign is any, Concurrency 1, and Timeout 10 s.
// Timeout is shorter if the interval is, or if all attempts of a slot would not end before the next run must begin.
func (p Poll) WithDefaults() Poll {
	if p.Assign == "" {
		p.Assign = "any"
	}
	if p.Concurrency == 0 {
		p.Concurrency = 1
	}

	if p.Timeout == 0 {
		p.Timeout = DefaultTimeout
		if p.Interval > 0 && p.Retries >= 0 {
			fits := p.maxRunTime() / Duration(1+p.Retries)
			p.Timeout = max(min(p.Timeout, p.Interval, fits).truncate(), Duration(time.Millisecond))
		}
	}

	return p
}

// maxRunTime returns how long a run may take if the poll is to keep up with its interval.
func (p Poll) maxRunTime() Duration { return p.Interval * Duration(max(1, p.Concurrency)) }

// Schedule returns the schedule of the poll, which depends on its name, interval, cron and time zone alone.
func (p Poll) Schedule() (schedule.Schedule, error) {
	v := newViolations(p.Name)
	if p.Cron == "" {
		if p.Interval < Duration(time.Millisecond) {
			v.refuse("interval", p.Interval, "must be positive, unless cron is set")
			return nil, v.first()
		}
		return schedule.Every(p.Name, time.Duration(p.Interval)), nil
	}

	zone, err := schedule.LoadZone(p.TimeZone)
	if err != nil {
		v.refuse("timeZone", p.TimeZone, "%v", err)
		return nil, v.first()
	}

	s, err := schedule.ParseCron(p.Cron, zone)
	if err != nil {
		v.refuse("cron", p.Cron, "%v", err)
		return nil, v.first()
	}

	return s, nil
}

// Redacted returns the poll without credentials in its target and its options.
func (p Poll) Redacted() Poll {
	p.Target = check.Redact(p.Target)
	p.Options = maps.Clone(p.Options)
	for name, value := range p.Options {
		p.Options[name] = check.Conceal(name, value)
	}

	return p
}
