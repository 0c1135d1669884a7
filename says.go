package regent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/regentd/regent/internal/core"
)

// This file is what a member says of itself in its register, which is written anew at every heartbeat. A store is
// promised that it fits into driver.MaxData bytes, so each part of it has a limit. They count bytes of JSON.
const (
	maxFacts  = 16 << 10
	maxLabels = 16 << 10
	maxRegion = 1 << 10
	maxListed = 100      // how many elections a member names
	maxNames  = 24 << 10 // and how long those names may be together
)

// encodedSize is how many bytes of JSON a value takes that JSON can hold.
func encodedSize(v any) int {
	b, _ := json.Marshal(v)
	return len(b)
}

// checkFacts refuses Facts that are too large.
func checkFacts(facts map[string]string) error {
	if n := encodedSize(facts); n > maxFacts {
		return &ConfigError{"facts", sizeText(n), fmt.Sprintf("must take at most %d bytes as JSON", maxFacts)}
	}
	return nil
}

func sizeText(n int) string { return fmt.Sprintf("of %d bytes", n) }

// infoLocked encodes what the member says of itself.
func (r *run) infoLocked() []byte {
	b, _ := json.Marshal(r.aboutSelf()) // MemberInfo holds nothing that JSON cannot hold
	return b
}

// sayLocked tells the core what the member says of itself. A Do must follow.
func (r *run) sayLocked() { r.shell.Queue(core.Publish{Info: r.infoLocked()}) }

// electionsChangedLocked tells the core that elections have come or gone. A member with very many of them does not list
// them.
func (r *run) electionsChangedLocked() {
	many := len(r.m.cands) > maxListed
	if !many || !r.many {
		r.sayLocked()
	}
	r.many = many
}

func (r *run) aboutSelf() MemberInfo {
	return MemberInfo{Eligible: !r.cfg.Ineligible, Healthy: r.m.illLocked() == nil, Worker: r.m.Worker,
		Priority: r.cfg.Priority, Region: r.cfg.Region, Labels: r.cfg.Labels, Facts: r.m.Facts, Elections: r.m.listed()}
}

// listed returns the elections that the member campaigns for, or "*" if they are too many, or their names too long.
func (m *Member) listed() []string {
	var names []string
	size := 0
	for name := range m.cands {
		size += encodedSize(name) + 1
		if len(names) == maxListed || size > maxNames {
			return []string{"*"}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// SetFacts replaces the Facts while the member runs. Others are told with its next heartbeat. Facts that are too large
// are refused, and those before stay.
func (m *Member) SetFacts(facts map[string]string) error {
	if err := checkFacts(facts); err != nil {
		return err
	}
	m.mu.Lock()
	m.Facts = maps.Clone(facts)
	r := m.run
	if r != nil {
		r.sayLocked()
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
