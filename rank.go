package regent

import (
	"cmp"
	"encoding/json"
	"hash/fnv"
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

// compare is negative if a should have the seat rather than b. Under first come nobody is better than another.
func (r Rank) compare(a, b MemberInfo) int {
	kind, regions, _ := strings.Cut(string(r), ":")
	switch Rank(kind) {
	case RankLexicographic:
		return strings.Compare(a.ID, b.ID)
	case RankPriority:
		return cmp.Compare(b.Priority, a.Priority)
	case RankRegion:
		order := strings.Split(regions, ",")
		place := func(m MemberInfo) int {
			if i := slices.Index(order, m.Region); i >= 0 {
				return i
			}
			return len(order)
		}
		return cmp.Compare(place(a), place(b))
	}
	return 0
}

// MemberInfo is what a member says of itself in its register.
type MemberInfo struct {
	ID        string            `json:"-"`
	Addr      string            `json:"-"`
	Eligible  bool              `json:"eligible"`
	Healthy   bool              `json:"healthy"`
	Worker    bool              `json:"worker,omitempty"` // it takes tasks
	Priority  int               `json:"priority,omitempty"`
	Region    string            `json:"region,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Elections []string          `json:"elections,omitempty"` // that it campaigns for; "*" for more than it lists
	Facts     map[string]string `json:"facts,omitempty"`     // as [Member] has them

	run string // its incarnation
}

// memberInfo reads a member's register. One that cannot be read says nothing, so its member is no candidate.
func memberInfo(l driver.Record) MemberInfo {
	var i MemberInfo
	if json.Unmarshal(l.Data, &i) != nil {
		i = MemberInfo{}
	}
	i.ID, i.Addr = l.Holder.ID, l.Addr
	i.run = l.Holder.Incarnation
	return i
}

// runsFor reports whether the member would take the seat.
func (i MemberInfo) runsFor(election string) bool {
	return i.Eligible && i.Healthy && (slices.Contains(i.Elections, election) || slices.Contains(i.Elections, "*"))
}

// isRun reports whether the member is in this very run. Whoever has just released a seat may not have left yet.
func (i MemberInfo) isRun(who driver.Identity) bool {
	return i.ID == who.ID && i.run == who.Incarnation
}

// share picks one of the candidates for a seat, the same one everywhere (rendezvous hashing), so that the many seats of one dead
// member spread over those who are left.
func share(election string, ids []string) string {
	var best string
	var top uint64
	for _, id := range ids {
		h := fnv.New64a()
		h.Write([]byte(id))
		h.Write([]byte{0})
		h.Write([]byte(election))
		// FNV alone leaves the IDs' order in the high bits.
		x := h.Sum64()
		x ^= x >> 33
		x *= 0xff51afd7ed558ccd
		x ^= x >> 33
		if best == "" || x > top || x == top && id < best {
			best, top = id, x
		}
	}
	return best
}
