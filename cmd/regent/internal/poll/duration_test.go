package poll

import (
	"encoding/json"
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`"10s"`:  10 * time.Second,
		`"1.5s"`: 1500 * time.Millisecond,
		`1500`:   1500 * time.Millisecond,
		`"1500"`: 1500 * time.Millisecond,
		`0.5`:    500 * time.Microsecond,
		`"2m"`:   2 * time.Minute,
	} {
		t.Run("a_duration_is_a_text_or_milliseconds_"+text, func(t *testing.T) {
			var d, again Duration
			if err := json.Unmarshal([]byte(text), &d); err != nil || time.Duration(d) != want {
				t.Fatalf("%v %v", err, d)
			}
			data, _ := json.Marshal(d)
			if err := json.Unmarshal(data, &again); err != nil || again != d {
				t.Errorf("%s is read as %v, %v", data, again, err)
			}
		})
	}
	for _, text := range []string{`""`, `"s"`, `true`, `null`, `{}`, `"1e3"`, `1e3`, `"-"`, `999999999999999999999`} {
		t.Run("nothing_else_is_"+text, func(t *testing.T) {
			var d Duration
			if err := json.Unmarshal([]byte(text), &d); err == nil {
				t.Errorf("got %v", d)
			}
		})
	}
}
