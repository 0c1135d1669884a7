package poll

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Duration is a time.Duration whose text is a Go duration such as 1m30s. A bare number is milliseconds, as everywhere
// in the configuration.
type Duration time.Duration

const durationRule = "must be a duration, such as 1.5s or 500ms, or a number of milliseconds"

// String returns the text, such as 1m30s.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON returns the text as a JSON string.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads a JSON string or number.
func (d *Duration) UnmarshalJSON(data []byte) error {
	text := string(data)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}

	var err error
	*d, err = parseDuration(text)
	return err
}

func parseDuration(s string) (Duration, error) {
	s = strings.TrimSpace(s)
	if strings.Trim(s, "+-.0123456789") == "" {
		s += "ms"
	}

	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("a duration " + durationRule)
	}

	return Duration(d), nil
}

// truncate returns the duration in whole milliseconds.
func (d Duration) truncate() Duration { return Duration(time.Duration(d).Truncate(time.Millisecond)) }
