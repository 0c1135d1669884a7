package orchestrate

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/internal/millis"
)

// View is a poll with its status, as the API returns it.
type View struct {
	poll.Poll
	Status
}

// MarshalJSON writes the poll as the API shows it, with its status.
func (v View) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		poll.Answer
		Status
	}{v.Poll.Answer(), v.Status})
}

// UnmarshalJSON reads the JSON of a View. The embedded Poll has an UnmarshalJSON of its own, which would ignore Status.
func (v *View) UnmarshalJSON(data []byte) error {
	return errors.Join(json.Unmarshal(data, &v.Poll), json.Unmarshal(data, &v.Status))
}

// Status is the part of a View that is not defined by the user.
type Status struct {
	Source     string            `json:"source"` // file or store
	State      State             `json:"state"`
	StateSince time.Time         `json:"stateSince,omitzero"`
	Next       time.Time         `json:"next,omitzero"`
	Running    int               `json:"running"`
	Waiting    int               `json:"waiting"`
	Problem    string            `json:"problem,omitempty"` // why no worker takes the waiting slots
	Counts     map[string]uint64 `json:"counts"`
	Latency    []Bucket          `json:"latency,omitempty"`
	Results    []Run             `json:"results,omitempty"` // the last ones, newest first
}

// Bucket is a bucket of a latency histogram.
type Bucket struct {
	AtMostMs float64 `json:"atMostMs,omitempty"` // left out for the last bucket, which has no bound
	Count    uint64  `json:"count"`
}

// view returns the entry as a View, with its history if details are wanted. It still contains the secrets of the poll.
func (e *entry) view(details bool) View {
	v := View{e.poll, Status{
		Source:     "store",
		State:      cmp.Or(e.state, Unknown),
		StateSince: e.since,
		Next:       e.next,
		Running:    len(e.running),
		Waiting:    len(e.queue),
		Problem:    e.problem,
		Counts:     map[string]uint64{},
	}}
	if e.fixed {
		v.Source = "file"
	}
	maps.Copy(v.Counts, e.counts)
	if !details {
		return v
	}

	for i, n := range e.latency.Counts {
		b := Bucket{Count: n}
		if i < len(bounds) {
			b.AtMostMs = millis.Of(bounds[i])
		}
		v.Latency = append(v.Latency, b)
	}
	v.Results = slices.Clone(e.runs)
	slices.Reverse(v.Results)

	return v
}
