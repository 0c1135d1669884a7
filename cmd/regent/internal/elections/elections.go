// Package elections lists the elections of a store for people and programs: who leads each, since when and why, what is
// left of the lease, and who would lead next.
//
// A [Lister] reads the whole store, and counts heartbeats on its own clock. A [Shared] bounds how often that is done,
// however many ask. What they return is for display: nothing in the protocol depends on it.
package elections

import (
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// State is whether an election is led.
type State string

// States. An election is expired if its record names a holder whose heartbeat has expired, or whose process has ended,
// and nobody has taken over.
const (
	Led     State = "led"
	Expired State = "expired"
	Vacant  State = "vacant"
)

// Answer is the answer of /v1/elections: one page of the elections of a store.
type Answer struct {
	Node       string      `json:"node,omitempty"` // who answers
	Rank       regent.Rank `json:"rank"`           // by which candidates are ordered: that of whoever answers
	AsOf       time.Time   `json:"asOf"`           // when the list was begun
	AgeMs      int64       `json:"ageMs"`          // how long ago that was
	TookMs     float64     `json:"tookMs"`         // how long the store took
	Total      int         `json:"total"`          // elections in the store
	Next       string      `json:"next,omitempty"` // the last name of this page, if more follow
	Truncated  bool        `json:"truncated,omitempty"`
	Unreadable []string    `json:"unreadable,omitempty"` // registers
	Elections  []Election  `json:"elections"`
}

// Election is an election as the store shows it.
type Election struct {
	Name             string      `json:"name"`
	State            State       `json:"state"`
	Paused           bool        `json:"paused"`
	Leader           string      `json:"leader"` // empty unless it is led
	LeaderAddr       string      `json:"leaderAddr,omitempty"`
	Holder           string      `json:"holder,omitempty"` // whom the record names
	Epoch            uint64      `json:"epoch"`
	Since            time.Time   `json:"since,omitzero"` // by the wall clock of the leader
	Next             string      `json:"next,omitempty"`
	LeaseDurationMs  int64       `json:"leaseDurationMs"`
	HeartbeatAgeMs   *int64      `json:"heartbeatAgeMs,omitempty"`   // left out if not known
	LeaseRemainingMs *int64      `json:"leaseRemainingMs,omitempty"` // likewise
	Why              *Why        `json:"why"`
	Candidates       []Candidate `json:"candidates"`
	CandidateCount   int         `json:"candidateCount"`
	EligibleCount    int         `json:"eligibleCount"` // candidates that can lead

	// Finished means that nobody leads or campaigns, because the work of the last leader ended: that is no fault.
	Finished bool `json:"finished,omitempty"`

	// Terms are those that have ended, the oldest first. They are left out unless asked for.
	Terms []driver.Past `json:"terms,omitempty"`
}

// Candidate is a member that campaigns for an election, as its register shows it.
type Candidate struct {
	ID       string `json:"id"`
	Addr     string `json:"addr,omitempty"`
	Region   string `json:"region,omitempty"`
	Priority int    `json:"priority"`
	Rank     int    `json:"rank,omitempty"` // from 1 on, equal if none is preferred; 0 if it cannot lead
	Leads    bool   `json:"leads"`
	CanLead  bool   `json:"canLead"`
	Eligible bool   `json:"eligible"`
	Healthy  bool   `json:"healthy"`
	Alive    bool   `json:"alive"`
	Why      string `json:"why,omitempty"` // why it cannot lead
}

// Heartbeat sets the age of the leader's newest heartbeat, and what is left of its lease.
func (e *Election) Heartbeat(age, remaining time.Duration) {
	a := age.Milliseconds()
	r := max(0, remaining).Milliseconds()
	e.HeartbeatAgeMs = &a
	e.LeaseRemainingMs = &r
}

// Expire makes an election that was led expired.
func (e *Election) Expire() {
	e.State = Expired
	e.Leader = ""
	e.LeaderAddr = ""
	for i := range e.Candidates {
		e.Candidates[i].Leads = false
	}
}
