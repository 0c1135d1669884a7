package check

import (
	"encoding/json"

	"github.com/regentd/regent/internal/millis"
)

// plainOutcome is an Outcome without its methods.
type plainOutcome Outcome

// outcomeJSON is the JSON of an Outcome.
type outcomeJSON struct {
	plainOutcome
	LatencyMs float64 `json:"latencyMs"`
}

// MarshalJSON writes the latency in milliseconds.
func (o Outcome) MarshalJSON() ([]byte, error) {
	return json.Marshal(outcomeJSON{plainOutcome(o), millis.Of(o.Latency)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (o *Outcome) UnmarshalJSON(data []byte) error {
	var read outcomeJSON
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}

	*o = Outcome(read.plainOutcome)
	o.Latency = millis.Duration(read.LatencyMs)
	return nil
}
