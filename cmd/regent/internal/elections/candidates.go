package elections

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// everyElection stands for all elections in the info of a member that campaigns for too many to list them.
const everyElection = "*"

// member is a member that has joined, as its register shows it.
type member struct {
	regent.MemberInfo
	id    string
	addr  string
	alive bool
}

// enroll ranks the members, and notes which elections each campaigns for.
func (s *List) enroll(heartbeats map[string]driver.Record) {
	for name, r := range heartbeats {
		if name != driver.MemberRegister(r.Holder.ID) { // vacant, or an election with a lease of its own
			continue
		}

		m := member{id: r.Holder.ID, addr: r.Addr, alive: s.beats[name].alive()}
		if json.Unmarshal(r.Data, &m.MemberInfo) == nil {
			s.members = append(s.members, m)
		}
	}

	slices.SortFunc(s.members, func(a, b member) int {
		return cmp.Or(s.compare(a, b), strings.Compare(a.id, b.id))
	})

	for i, m := range s.members {
		for _, election := range m.Elections {
			if election == everyElection {
				s.everywhere = append(s.everywhere, i)
				break
			}
			s.named[election] = append(s.named[election], i)
		}
	}
}

// compare is negative if a should lead rather than b.
func (s *List) compare(a, b member) int {
	return core.CompareCandidates(string(s.rank),
		core.Candidate{ID: a.id, Priority: a.Priority, Region: a.Region, Latency: a.LatencyMs},
		core.Candidate{ID: b.id, Priority: b.Priority, Region: b.Region, Latency: b.LatencyMs})
}

// candidates returns the candidates of an election: those that can lead, the best first, and then the others.
func (s *List) candidates(e *Election) []Candidate {
	indexes := slices.Concat(s.named[e.Name], s.everywhere)
	slices.Sort(indexes)

	able := []Candidate{}
	var others []Candidate
	rank := 0
	var last *member
	found := false
	for _, i := range indexes {
		m := &s.members[i]
		c := m.candidate(e)
		found = found || c.Leads
		if !c.CanLead {
			others = append(others, c)
			continue
		}

		if last == nil || s.compare(*last, *m) < 0 {
			rank = len(able) + 1
		}

		last = m
		c.Rank = rank
		able = append(able, c)
	}

	if e.State == Led && !found { // it has no register that says so
		others = append(others, Candidate{
			ID: e.Leader, Addr: e.LeaderAddr, Leads: true, CanLead: true, Eligible: true, Healthy: true, Alive: true,
		})
	}

	return append(able, others...)
}

// candidate returns a member as a candidate of an election.
func (m *member) candidate(e *Election) Candidate {
	c := Candidate{
		ID: m.id, Addr: m.addr, Region: m.Region, Priority: m.Priority, Leads: e.State == Led && e.Leader == m.id,
		Eligible: m.Eligible, Healthy: m.Healthy, Alive: m.alive,
	}
	switch {
	case !m.alive:
		c.Why = "its heartbeat has expired"
	case !m.Eligible:
		c.Why = "it is not eligible: eligible is false in its configuration"
	case !m.Healthy:
		c.Why = "it is unhealthy"
	default:
		c.CanLead = true
	}

	return c
}
