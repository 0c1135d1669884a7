package regent

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/regentd/regent/driver"
)

// Rank says who should win when several could. The store's compare-and-swap always decides; a rank only decides who tries first.
type Rank string

// The ranks. [RankRegions] makes one more for each list of regions.
const (
	RankFirst         Rank = "first"         // the candidate that claims first
	RankLexicographic Rank = "lexicographic" // the candidate with the smallest ID
	RankPriority      Rank = "priority"      // the candidate with the highest Priority
)

// rankRegion begins a rank by region. The regions follow, as in "region:eu-west,eu-central".
const rankRegion = "region"

// RankRegions returns the rank by which a candidate in an earlier region of the list should lead. Candidates in other
// regions come last. Name at least one region; the name of a region has no comma.
func RankRegions(regions ...string) Rank {
	return Rank(rankRegion + ":" + strings.Join(regions, ","))
}

func (r Rank) validate() error {
	kind, regions, listed := strings.Cut(string(r), ":")
	switch Rank(kind) {
	case RankFirst, RankLexicographic, RankPriority:
		if !listed {
			return nil
		}
	case rankRegion:
		if regions != "" && !slices.Contains(strings.Split(regions, ","), "") {
			return nil
		}
	}
	return &ConfigError{"rank", string(r), "must be first, lexicographic, priority, or region: followed by regions, the best first"}
}

// MemberInfo is what a member says of itself in its register.
type MemberInfo struct {
	Eligible  bool              `json:"eligible"`
	Healthy   bool              `json:"healthy"`
	Worker    bool              `json:"worker,omitempty"` // it takes tasks
	Priority  int               `json:"priority,omitempty"`
	Region    string            `json:"region,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Elections []string          `json:"elections,omitempty"` // that it campaigns for; "*" for more than it lists
	Facts     map[string]string `json:"facts,omitempty"`     // as [Member] has them
}

// memberInfo reads a member's register. One that cannot be read says nothing, so its member is no candidate.
func memberInfo(l driver.Record) MemberInfo {
	var i MemberInfo
	if json.Unmarshal(l.Data, &i) != nil {
		return MemberInfo{}
	}

	return i
}

// runsFor reports whether the member would take the seat.
func (i MemberInfo) runsFor(election string) bool {
	return i.Eligible && i.Healthy && (slices.Contains(i.Elections, election) || slices.Contains(i.Elections, "*"))
}
