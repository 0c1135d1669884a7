package cli

import (
	"context"
	"fmt"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/elections"
)

// leaderOf returns who leads an election or, if nobody does, why.
func (s *session) leaderOf(ctx context.Context, name string) (leader string, vacant *Explanation, err error) {
	all, err := s.cluster.Elections(ctx)
	if err != nil {
		return "", nil, err
	}
	chosen, err := choose(all, []string{name})
	if err != nil {
		return "", nil, err
	}

	e := chosen[0]
	if e.State == elections.Led {
		return e.Leader, nil, nil
	}
	return "", explainVacant(e), nil
}

// explainVacant explains why nobody leads an election.
func explainVacant(e cluster.Election) *Explanation {
	r := &Explanation{
		Election: e.Name, Epoch: e.Epoch, Because: []string{}, But: []string{},
		Text: fmt.Sprintf("nobody leads election %s; the last epoch was %d: %s.", e.Name, e.Epoch, reasonOf(e)),
	}
	if e.Paused {
		r.Because = append(r.Because, fmt.Sprintf("the election is paused: nobody claims it until 'regent resume %s'",
			e.Name))
	}
	if text := noCandidates(e); text != "" {
		r.Because = append(r.Because, text)
	}

	for _, c := range e.Candidates {
		switch {
		case c.CanLead && !e.Paused:
			r.Because = append(r.Because, c.ID+" can lead, and has not claimed the election yet")
		case !c.CanLead && c.Why != "":
			r.Because = append(r.Because, fmt.Sprintf("%s cannot lead: %s", c.ID, c.Why))
		}
	}
	return r
}

// noCandidates returns that no member campaigns for an election that nobody leads; empty if one does.
func noCandidates(e cluster.Election) string {
	if e.CandidateCount > 0 || len(e.Candidates) > 0 {
		return ""
	}
	return "no member campaigns for it: start a node"
}
