package health

import (
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent"
)

// Status is how a member is, or the cluster.
type Status string

// The statuses of members, and of the cluster: that is healthy, degraded, critical or unknown.
const (
	Healthy     Status = "healthy"
	Degraded    Status = "degraded"
	Partitioned Status = "partitioned"
	Unreachable Status = "unreachable"
	Gone        Status = "gone"
	Unknown     Status = "unknown"
	Critical    Status = "critical"
)

// Cluster is what is known of the cluster.
type Cluster struct {
	Known     bool      `json:"known"` // false if nobody observes: then the rest is what was seen last
	Status    Status    `json:"status"`
	Reasons   []string  `json:"reasons"`
	CheckedAt time.Time `json:"checkedAt,omitzero"`
	Leader    string    `json:"leader,omitempty"`
	Epoch     uint64    `json:"epoch,omitempty"`
	Members   []Member  `json:"members"`
	Counts    Counts    `json:"counts"`
}

// Member is what is known of one member.
type Member struct {
	ID         string            `json:"id"`
	Addr       string            `json:"addr,omitempty"`
	Status     Status            `json:"status"`
	Why        string            `json:"why,omitempty"` // empty if healthy
	Role       string            `json:"role,omitempty"`
	Version    string            `json:"version,omitempty"`
	Region     string            `json:"region,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"` // not to be changed
	Eligible   bool              `json:"eligible"`
	Healthy    bool              `json:"healthy"`        // as it says in its register
	LastSeenMs int64             `json:"lastSeenMs"`     // how long before the check its heartbeat was last seen; -1 for never
	LatencyMs  float64           `json:"latencyMs"`      // of its answer; -1 for none
	Since      time.Time         `json:"since,omitzero"` // when it came to have its status
}

// Counts says how many members have each status.
type Counts struct {
	Members     int `json:"members"`
	Healthy     int `json:"healthy"`
	Degraded    int `json:"degraded"`
	Partitioned int `json:"partitioned"`
	Unreachable int `json:"unreachable"`
	Gone        int `json:"gone"`
	Unknown     int `json:"unknown"`
}

func count(members []Member) Counts {
	c := Counts{Members: len(members)}
	for _, m := range members {
		switch m.Status {
		case Healthy:
			c.Healthy++
		case Degraded:
			c.Degraded++
		case Partitioned:
			c.Partitioned++
		case Unreachable:
			c.Unreachable++
		case Gone:
			c.Gone++
		default:
			c.Unknown++
		}
	}
	return c
}

func byID(a, b Member) int { return strings.Compare(a.ID, b.ID) }

// NoCoordinator is what a node can tell that neither leads nor reaches a leader: who has not left, and that nobody looks after them.
func NoCoordinator(members []regent.MemberView, why string) Cluster {
	c := Cluster{Known: true, Status: Critical, Reasons: []string{"no coordinator"}, CheckedAt: time.Now(), Members: []Member{}}
	if why != "" {
		c.Reasons[0] += ": " + why
	}
	for _, v := range members {
		if v.Incarnation == "" {
			continue
		}
		c.Members = append(c.Members, Member{ID: v.ID, Addr: v.Addr, Status: Unknown, Why: "no coordinator observes it", Region: v.Region,
			Labels: v.Labels, Eligible: v.Eligible, Healthy: v.Healthy, LastSeenMs: -1, LatencyMs: -1})
	}
	slices.SortFunc(c.Members, byID)
	c.Counts = count(c.Members)
	return c
}
