package regent

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/regentd/regent/driver"
)

// Rank says who should win when several could. The store's compare-and-swap always decides; a rank only decides who tries first.
type Rank string

// The ranks. RankRegion is not one by itself: the regions follow, in order of preference, as in "region:eu-west,eu-central".
const (
	RankFirst         Rank = "first"
	RankLexicographic Rank = "lexicographic"
	RankPriority      Rank = "priority"
	RankRegion        Rank = "region"
)

func (r Rank) validate() error {
	kind, regions, listed := strings.Cut(string(r), ":")
	switch Rank(kind) {
	case RankFirst, RankLexicographic, RankPriority:
		if !listed {
			return nil
		}
	case RankRegion:
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
