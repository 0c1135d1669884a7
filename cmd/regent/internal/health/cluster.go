package health

import (
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent"
)

// Status is the status of a member or of the cluster.
type Status string

// Statuses. The cluster is healthy, degraded, critical or unknown; a member has any other than critical.
const (
	Healthy     Status = "healthy"
	Degraded    Status = "degraded"
	Partitioned Status = "partitioned"
	Unreachable Status = "unreachable"
	Gone        Status = "gone"
	Unknown     Status = "unknown"
	Critical    Status = "critical"
)

// Cluster is the health of the cluster.
type Cluster struct {
	Known     bool      `json:"known"` // false if this node does not lead: the rest is then from its last check
	Status    Status    `json:"status"`
	Reasons   []string  `json:"reasons"`
	CheckedAt time.Time `json:"checkedAt,omitzero"`

	// CheckedAgoMs is how long ago that was, on the clock of the node that checked.
	CheckedAgoMs int64 `json:"checkedAgoMs"`

	Leader  string   `json:"leader,omitempty"`
	Epoch   uint64   `json:"epoch,omitempty"`
	Members []Member `json:"members"`
	Counts  Counts   `json:"counts"`
}

// Member is the health of one member.
type Member struct {
	ID         string            `json:"id"`
	Addr       string            `json:"addr,omitempty"`
	Status     Status            `json:"status"`
	Why        string            `json:"why,omitempty"` // empty if healthy
	Role       string            `json:"role,omitempty"`
	Version    string            `json:"version,omitempty"`
	Region     string            `json:"region,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"` // not to be changed
	Priority   int               `json:"priority"`
	Elections  []string          `json:"elections,omitempty"` // that it campaigns for; "*" for more than it lists
	Eligible   bool              `json:"eligible"`
	Healthy    bool              `json:"healthy"`        // according to its register
	LastSeenMs int64             `json:"lastSeenMs"`     // how long ago its heartbeat was last seen; -1 for never
	Since      time.Time         `json:"since,omitzero"` // of its status

	// ProbeLatencyMs is how long it took to answer the leader's probe; -1 if it has not answered.
	ProbeLatencyMs float64 `json:"probeLatencyMs"`

	// The latency of its own heartbeats, according to its answer; 0 if not known.
	HeartbeatP50Ms float64 `json:"heartbeatP50Ms,omitempty"`
	HeartbeatP99Ms float64 `json:"heartbeatP99Ms,omitempty"`
}

// Counts is the number of members with each status.
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

// NoCoordinator returns the health of the cluster from a node that neither leads nor reaches a leader: its members are
// those that have not left, with unknown status. why is added to the reason unless it is empty.
func NoCoordinator(members []regent.MemberView, why string) Cluster {
	reason := "nobody checks the members"
	if why != "" {
		reason += ": " + why
	}

	c := Cluster{
		Known:     true,
		Status:    Critical,
		Reasons:   []string{reason},
		CheckedAt: time.Now(),
		Members:   []Member{},
	}
	for _, v := range members {
		if v.Incarnation == "" {
			continue
		}
		m := member{
			heartbeat: heartbeat{view: v}, status: Unknown, why: "nobody leads that could check it", latency: -1,
		}
		c.Members = append(c.Members, m.public())
	}

	slices.SortFunc(c.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	c.Counts = count(c.Members)
	return c
}
