package regent

import (
	"slices"
	"strings"
)

// Rank decides which of several candidates tries first to claim an election. The store's compare-and-swap decides who
// leads.
type Rank string

// The ranks. [RankRegions] makes one more for each list of regions.
const (
	RankFirst         Rank = "first"         // the candidate that claims first
	RankLexicographic Rank = "lexicographic" // the candidate with the smallest ID
	RankPriority      Rank = "priority"      // the candidate with the highest Priority
	RankLatency       Rank = "latency"       // the candidate with the lowest latency of the store
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
	case RankFirst, RankLexicographic, RankPriority, RankLatency:
		if !listed {
			return nil
		}
	case rankRegion:
		if regions != "" && !slices.Contains(strings.Split(regions, ","), "") {
			return nil
		}
	}

	return &ConfigError{
		Key:   "rank",
		Value: string(r),
		Rule:  "must be first, lexicographic, priority, latency, or region: followed by regions, the best first",
	}
}
