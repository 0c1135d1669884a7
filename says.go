package regent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

// says encodes what the member says of itself, anew only if it has changed. The engine's mutex is held.
func (e *engine) says() []byte {
	if e.info == nil {
		// MemberInfo holds nothing that JSON cannot hold.
		e.info, _ = json.Marshal(e.aboutSelf())
	}
	return e.info
}

func (e *engine) aboutSelf() MemberInfo {
	return MemberInfo{ID: e.m.ID, Addr: e.m.Addr, Eligible: e.cfg.Eligible, Healthy: e.ill() == nil, Worker: e.m.Worker,
		Priority: e.cfg.Priority, Region: e.cfg.Region, Labels: e.cfg.Labels, Facts: e.m.Facts, Elections: e.listed()}
}

// listed returns the elections that the member campaigns for, or "*" if they are too many, or their names too long.
func (e *engine) listed() []string {
	var names []string
	size := 0
	for name, s := range e.seats {
		if s.cand == nil {
			continue
		}
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
	defer m.mu.Unlock()
	m.Facts = maps.Clone(facts)
	if m.engine != nil {
		m.engine.info = nil
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
