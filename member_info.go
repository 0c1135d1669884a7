package regent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/jsonscan"
	"github.com/regentd/regent/internal/millis"
)

// MemberInfo is what a member publishes about itself in its register.
type MemberInfo struct {
	Eligible  bool              `json:"eligible"`
	Healthy   bool              `json:"healthy"`
	Worker    bool              `json:"worker,omitempty"` // it takes tasks
	Priority  int               `json:"priority,omitempty"`
	Region    string            `json:"region,omitempty"`
	LatencyMs float64           `json:"latencyMs,omitempty"` // of the store; measured under [RankLatency] only
	Labels    map[string]string `json:"labels,omitempty"`
	Elections []string          `json:"elections,omitempty"` // that it campaigns for; "*" for more than it lists
	Facts     map[string]string `json:"facts,omitempty"`     // those of [Member]
}

// memberInfo reads a member's register. If the register cannot be read, the result is zero: its member is no candidate.
func memberInfo(l driver.Record) MemberInfo {
	var i MemberInfo
	if json.Unmarshal(l.Data, &i) != nil {
		return MemberInfo{}
	}

	return i
}

// runsFor reports whether the member is a healthy candidate for an election.
func (i MemberInfo) runsFor(election string) bool {
	return i.Eligible && i.Healthy && (slices.Contains(i.Elections, election) || slices.Contains(i.Elections, "*"))
}

// A member writes its info with every heartbeat. A store has to take driver.MaxData bytes, so that each part of the
// info has a limit, in bytes of JSON.
const (
	maxFacts  = 16 << 10
	maxLabels = 16 << 10
	maxRegion = 1 << 10
	maxListed = 100      // how many elections a member names
	maxNames  = 24 << 10 // and how long their names may be together
)

// encodedSize returns how many bytes of JSON a value takes that JSON can hold.
func encodedSize(v any) int {
	b, _ := json.Marshal(v)
	return len(b)
}

// checkFacts returns an error if the Facts are too large.
func checkFacts(facts map[string]string) error {
	n := encodedSize(facts)
	if n <= maxFacts {
		return nil
	}

	return &ConfigError{
		Key:   "facts",
		Value: sizeText(n),
		Rule:  fmt.Sprintf("must take at most %d bytes as JSON", maxFacts),
	}
}

func sizeText(n int) string { return fmt.Sprintf("of %d bytes", n) }

// SetFacts replaces the Facts while the member runs. They are published with its next heartbeat. If they are too large,
// SetFacts returns an error, and the Facts stay as they were.
func (m *Member) SetFacts(facts map[string]string) error {
	if err := checkFacts(facts); err != nil {
		return err
	}

	m.mu.Lock()
	m.Facts = maps.Clone(facts)
	r := m.run
	if r != nil {
		r.publishLocked()
	}

	m.mu.Unlock()

	if r != nil {
		r.shell.Do()
	}
	return nil
}

// ownFacts checks the Facts that a member starts with, and copies them, so that their caller can no longer change them.
func (m *Member) ownFacts() error {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.Facts = maps.Clone(m.Facts)
	return checkFacts(m.Facts)
}

// infoLocked returns the member's info as JSON.
func (r *run) infoLocked() []byte {
	b, _ := json.Marshal(MemberInfo{ // which holds nothing that JSON cannot hold
		Eligible: !r.cfg.Ineligible, Healthy: r.m.unhealthyLocked() == nil, Worker: r.m.Worker,
		Priority: r.cfg.Priority, Region: r.cfg.Region, Labels: r.cfg.Labels, Facts: r.m.Facts,
		Elections: r.m.listedLocked(), LatencyMs: millis.Of(r.m.latency),
	})

	return b
}

// publishLocked has the member's info published with its next heartbeat. It is made then: a member that leads in short
// terms changes it far more often.
func (r *run) publishLocked() { r.unpublished = true }

// Info returns the member's info, and whether it has to be published.
func (r *run) Info() ([]byte, bool) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()

	if !r.unpublished {
		return nil, false
	}

	r.unpublished = false
	return r.infoLocked(), true
}

// electionsChangedLocked publishes the info after the elections of the member have changed. If the member has too many
// elections to list them, before and after the change, its info stays the same.
//
// A member without a register has nobody to tell.
func (r *run) electionsChangedLocked() {
	if !r.cfg.registers() {
		return
	}

	many := len(r.m.cands) > maxListed
	if !many || !r.many {
		r.publishLocked()
	}

	r.many = many
}

// nameSize returns how many bytes of JSON a name takes. It allocates nothing for a name without special characters.
func nameSize(name string) int {
	if jsonscan.Plain(name) && !strings.ContainsAny(name, "<>&") {
		return len(name) + 2
	}

	return encodedSize(name)
}

// listedLocked returns the elections that the member campaigns for. It returns "*" if they are too many, or their names
// too long.
func (m *Member) listedLocked() []string {
	var names []string
	size := 0
	for name := range m.cands {
		size += nameSize(name) + 1
		if len(names) == maxListed || size > maxNames {
			return []string{"*"}
		}

		names = append(names, name)
	}

	slices.Sort(names)
	return names
}
