// Package poll is about checks that are run again and again.
//
// A [Poll] is defined in the configuration file or through the API, and says what to check, when, and where. Its [Schedule] is computed from the
// definition alone, so that every leader finds the same runs due at the same times, whatever it has seen before.
package poll

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/check"
)

// Poll is a check that is run again and again.
type Poll struct {
	Name        string            `json:"name"`
	Kind        string            `json:"kind"` // http, tcp, dns, icmp, exec, or one that a worker registers
	Target      string            `json:"target"`
	Interval    Duration          `json:"interval,omitzero"` // from 1s; or
	Cron        string            `json:"cron,omitempty"`
	TimeZone    string            `json:"timeZone,omitempty"`    // of cron; UTC if empty
	Timeout     Duration          `json:"timeout,omitzero"`      // of one attempt
	Retries     int               `json:"retries,omitempty"`     // further attempts, each on another worker if there is one
	Assign      string            `json:"assign,omitempty"`      // any, node:NAME, or label:k=v,k2=v2
	Concurrency int               `json:"concurrency,omitempty"` // runs of this poll at once
	Enabled     bool              `json:"enabled"`
	Options     map[string]string `json:"options,omitempty"` // of its kind
	Since       time.Time         `json:"since,omitzero"`    // slots are due after it; set by the leader
}

// DefaultTimeout is how long an attempt may take, where its interval leaves that long.
const DefaultTimeout = Duration(10 * time.Second)

// WithDefaults fills in what is left out: Assign is any, Concurrency 1, and Timeout 10 s, or less if the poll would otherwise fall behind whenever
// its target hangs: no more than the interval, and so that all attempts end before the next run must begin.
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
			fits := p.room() / Duration(1+p.Retries)
			p.Timeout = max(min(p.Timeout, p.Interval, fits).truncate(), Duration(time.Millisecond))
		}
	}
	return p
}

// room is how long a run may take if the poll is to keep up with its interval.
func (p Poll) room() Duration { return p.Interval * Duration(max(1, p.Concurrency)) }

// Same reports whether both are the same definition, whenever they were made.
func (p Poll) Same(q Poll) bool {
	return p.Name == q.Name && p.Kind == q.Kind && p.Target == q.Target && p.Interval == q.Interval && p.Cron == q.Cron &&
		p.TimeZone == q.TimeZone && p.Timeout == q.Timeout && p.Retries == q.Retries && p.Assign == q.Assign &&
		p.Concurrency == q.Concurrency && p.Enabled == q.Enabled && maps.Equal(p.Options, q.Options)
}

// Redacted returns the poll as it may be shown: without credentials in its target and its options.
func (p Poll) Redacted() Poll {
	p.Target = check.Redact(p.Target)
	p.Options = maps.Clone(p.Options)
	for name, value := range p.Options {
		p.Options[name] = check.Conceal(name, value)
	}
	return p
}

// UnmarshalJSON reads what MarshalJSON writes, and takes a poll as enabled unless it says otherwise. It checks nothing: [Decode] does.
func (p *Poll) UnmarshalJSON(data []byte) error {
	type plain Poll
	q := plain{Enabled: true}
	if err := json.Unmarshal(data, &q); err != nil {
		return err
	}
	*p = Poll(q)
	return nil
}
