package poll

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// kept is how many runs of a poll are remembered.
const kept = 10

// State is what a poll says of its target.
type State string

// The states.
const (
	Unknown State = "unknown"
	Up      State = "up"
	Down    State = "down"
)

// bounds are the upper ends of the latency histogram's buckets; the last one is open.
var bounds = [...]time.Duration{time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second}

// Histogram counts latencies, each in the first bucket that it fits in.
type Histogram struct {
	Counts [len(bounds) + 1]uint64
	Sum    time.Duration
}

func (h *Histogram) add(d time.Duration) {
	n, _ := slices.BinarySearch(bounds[:], d)
	h.Counts[n]++
	h.Sum += d
}

// Buckets returns the histogram as Prometheus has it: how many were at most as long as each bound, in seconds.
func (h *Histogram) Buckets() (cumulative map[float64]uint64, count uint64) {
	cumulative = map[float64]uint64{}
	for i, b := range bounds {
		count += h.Counts[i]
		cumulative[b.Seconds()] = count
	}
	return cumulative, count + h.Counts[len(bounds)]
}

// record is what is known of a poll's runs.
type record struct {
	state   State
	since   time.Time
	runs    []Run // the last ones, oldest first
	counts  map[string]uint64
	latency Histogram
}

// count adds to the slots of an outcome.
func (r *record) count(outcome string, n uint64) {
	if r.counts == nil {
		r.counts = map[string]uint64{}
	}
	r.counts[outcome] += n
}

// forgetAfter forgets the runs of slots that are due after a time: what runs next is newer than they are.
func (r *record) forgetAfter(now time.Time) {
	r.runs = slices.DeleteFunc(r.runs, func(run Run) bool { return run.Due.After(now) })
}

// note takes in a run, and reports whether the state has changed in a way that somebody should hear of: from unknown to up is none.
func (r *record) note(run Run) (from State, changed bool) {
	r.count(run.Outcome, 1)
	if slices.ContainsFunc(r.runs, func(o Run) bool { return o.Slot == run.Slot }) {
		return r.state, false
	}
	if run.Outcome == outcomeOK || run.Outcome == outcomeFailed {
		r.latency.add(run.Latency)
	}
	n, _ := slices.BinarySearchFunc(r.runs, run, func(a, b Run) int { return a.Due.Compare(b.Due) })
	newest := n == len(r.runs)
	r.runs = slices.Insert(r.runs, n, run)
	if len(r.runs) > kept {
		r.runs = slices.Delete(r.runs, 0, len(r.runs)-kept)
	}
	state := Up
	switch run.Outcome {
	case outcomeOK:
	case outcomeFailed:
		state = Down
	default: // nothing was learnt about the target
		return r.state, false
	}
	from = r.state
	if from == "" {
		from = Unknown
	}
	if !newest || state == from {
		return from, false
	}
	r.state, r.since = state, time.Now()
	return from, from != Unknown || state == Down
}

// View is a poll as it is told.
type View struct {
	Poll
	Standing
}

// UnmarshalJSON reads what a node tells: both parts stand side by side, and a poll has a way of its own to be read.
func (v *View) UnmarshalJSON(data []byte) error {
	return errors.Join(json.Unmarshal(data, &v.Poll), json.Unmarshal(data, &v.Standing))
}

// Standing is how a poll fares.
type Standing struct {
	Source     string            `json:"source"` // file or store
	State      State             `json:"state"`
	StateSince time.Time         `json:"stateSince,omitzero"`
	Next       time.Time         `json:"next,omitzero"`
	Running    int               `json:"running"`
	Waiting    int               `json:"waiting"`
	Problem    string            `json:"problem,omitempty"` // why nobody takes what waits
	Counts     map[string]uint64 `json:"counts"`
	Latency    []Bucket          `json:"latency,omitempty"`
	Results    []Run             `json:"results,omitempty"` // the last ones, newest first
}

// Bucket is a part of a latency histogram.
type Bucket struct {
	AtMost string `json:"atMost"`
	Count  uint64 `json:"count"`
}

// view tells an entry; with its history, if it is asked for by itself. What is secret is still in it.
func (e *entry) view(whole bool) View {
	v := View{e.poll, Standing{Source: "store", State: e.state, StateSince: e.since, Next: e.next, Running: len(e.out), Waiting: len(e.queue), Problem: e.problem, Counts: map[string]uint64{}}}
	if e.fixed {
		v.Source = "file"
	}
	if v.State == "" {
		v.State = Unknown
	}
	for k, n := range e.counts {
		v.Counts[k] = n
	}
	if !whole {
		return v
	}
	for i, n := range e.latency.Counts {
		b := Bucket{"more", n}
		if i < len(bounds) {
			b.AtMost = bounds[i].String()
		}
		v.Latency = append(v.Latency, b)
	}
	v.Results = slices.Clone(e.runs)
	slices.Reverse(v.Results)
	return v
}
