package poll

import (
	"encoding/json"
	"time"

	"github.com/regentd/regent/internal/millis"
)

// Answer is a poll as the API shows it, with durations in milliseconds. The fields are those of [Poll].
type Answer struct {
	Name        string            `json:"name"`
	Kind        string            `json:"kind"`
	Target      string            `json:"target"`
	IntervalMs  float64           `json:"intervalMs,omitempty"`
	Cron        string            `json:"cron,omitempty"`
	TimeZone    string            `json:"timeZone,omitempty"`
	TimeoutMs   float64           `json:"timeoutMs,omitempty"`
	Retries     int               `json:"retries,omitempty"`
	Assign      string            `json:"assign,omitempty"`
	Concurrency int               `json:"concurrency,omitempty"`
	Enabled     bool              `json:"enabled"`
	Options     map[string]string `json:"options,omitempty"`
	Since       time.Time         `json:"since,omitzero"`
}

// Answer returns the poll as the API shows it. It still contains the secrets of the poll.
func (p Poll) Answer() Answer {
	return Answer{
		Name:        p.Name,
		Kind:        p.Kind,
		Target:      p.Target,
		IntervalMs:  millis.Of(time.Duration(p.Interval)),
		Cron:        p.Cron,
		TimeZone:    p.TimeZone,
		TimeoutMs:   millis.Of(time.Duration(p.Timeout)),
		Retries:     p.Retries,
		Assign:      p.Assign,
		Concurrency: p.Concurrency,
		Enabled:     p.Enabled,
		Options:     p.Options,
		Since:       p.Since,
	}
}

// UnmarshalJSON reads the JSON of a Poll or of an [Answer]. A poll is enabled unless it says otherwise. It validates
// nothing: use [Decode] for that.
func (p *Poll) UnmarshalJSON(data []byte) error {
	type plain Poll
	q := struct {
		plain
		IntervalMs *float64 `json:"intervalMs"`
		TimeoutMs  *float64 `json:"timeoutMs"`
	}{plain: plain{Enabled: true}}
	if err := json.Unmarshal(data, &q); err != nil {
		return err
	}

	*p = Poll(q.plain)
	if q.IntervalMs != nil {
		p.Interval = Duration(millis.Duration(*q.IntervalMs))
	}
	if q.TimeoutMs != nil {
		p.Timeout = Duration(millis.Duration(*q.TimeoutMs))
	}

	return nil
}
