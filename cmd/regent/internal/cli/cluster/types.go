package cluster

import (
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/cmd/regent/internal/elections"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
	"github.com/regentd/regent/driver"
)

// The JSON of a node is that of the types which its handlers encode: there is one definition of each.
type (
	// Elections is the answer of /v1/elections.
	Elections = elections.Answer
	// Election is one election of it.
	Election = elections.Election
	// Candidate is a candidate of an election.
	Candidate = elections.Candidate
	// Status is the answer of /v1/status.
	Status = api.Status
	// Members is the answer of /v1/members.
	Members = health.Cluster
	// Member is one member of it.
	Member = health.Member
	// Poll is a poll with its state.
	Poll = orchestrate.View
	// Run is one run of a poll.
	Run = orchestrate.Run
	// Event is an event of a node.
	Event = regent.Event
)

// Record is the part of the answer of /v1/elections/{election} that verbs need.
type Record struct {
	Leader string `json:"leader"` // whom the record names; it may be dead
	Epoch  uint64 `json:"epoch"`
	Next   string `json:"next"`
	Paused bool   `json:"paused"`

	Since time.Time `json:"since"`
}

// History is the answer of /v1/elections/{election}/history.
type History struct {
	Election string        `json:"election"`
	Terms    []driver.Past `json:"terms"`
}

// polls is the answer of /v1/polls.
type polls struct {
	Polls []Poll `json:"polls"`
}

// verbRequest is the body of a verb.
type verbRequest struct {
	Epoch uint64 `json:"epoch"`
	To    string `json:"to,omitempty"`
}

// failure is the body of an error.
type failure struct {
	Code  string `json:"code"`
	Error string `json:"error"`
	Epoch uint64 `json:"epoch"`
}

// Verb is what an operator asks a leader for.
type Verb string

// Verbs.
const (
	HandOff  Verb = "handoff"
	StepDown Verb = "step-down"
	Pause    Verb = "pause"
	Resume   Verb = "resume"
)

// observe is how long the heartbeats of a store are observed, so that their age is known.
const observe = 1900 * time.Millisecond
