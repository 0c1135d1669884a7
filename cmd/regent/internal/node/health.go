package node

import (
	"fmt"
	"time"

	"github.com/regentd/regent"
)

// Role is the role of a node in its election.
type Role string

// Roles. A node is unknown while it cannot reach the store and does not lead.
const (
	Leader   Role = "leader"
	Standby  Role = "standby"
	Observer Role = "observer"
	Starting Role = "starting"
	Unknown  Role = "unknown"
)

// Health is the health of a node.
type Health struct {
	Node             string            `json:"node"`
	Role             Role              `json:"role"`
	Leader           string            `json:"leader"`
	LeaderAddr       string            `json:"leaderAddr"`
	Epoch            uint64            `json:"epoch"`
	LeaseRemainingMs int64             `json:"leaseRemainingMs"`
	HeartbeatAgeMs   int64             `json:"heartbeatAgeMs,omitempty"` // of the leader, if that is another node
	Store            StoreHealth       `json:"store"`
	Checks           map[string]string `json:"checks"`
	HealthCheck      *CheckHealth      `json:"healthCheck,omitempty"` // that of the configuration
	Differs          []Difference      `json:"differs,omitempty"`     // from other members, in configuration
}

// ok is the text of a check that has passed.
const ok = "ok"

// stuckAfter is how long the loop may be overdue before the node counts as stuck. A slow store does not delay it: each
// request has a timeout of its own.
const stuckAfter = 30 * time.Second

// Health returns the health of the node, without a request to the store.
func (n *Node) Health() Health {
	h, _, _ := n.Observe()
	return h
}

// Observe returns the health of the node and the view of its election that the health is based on; false if the node
// has read nothing of the election yet. It makes no request to the store.
func (n *Node) Observe() (Health, regent.View, bool) {
	v, seen := n.Member.View(n.opts.Election)
	h := n.health(v, seen)
	if h.Role == Leader && h.Epoch > v.Epoch { // the term began after the view was taken
		v, seen = n.Member.View(n.opts.Election)
		h = n.health(v, seen)
	}

	return h, v, seen
}

// health returns the health of the node by a view of its election.
func (n *Node) health(v regent.View, seen bool) Health {
	h := Health{
		Node:   n.Member.ID,
		Checks: map[string]string{"loop": ok, "store": ok},
		Store:  StoreHealth{Address: n.opts.Store, AnsweredMs: -1},
	}
	n.addStore(&h)
	n.addWorker(&h)
	if lag := n.Member.Stats().LoopLag; lag > 0 {
		h.Checks["loop"] = fmt.Sprintf("overdue by %v", lag.Round(time.Millisecond))
	}

	h.Leader = v.Leader
	h.LeaderAddr = v.Addr
	n.addEpoch(&h, v, seen)
	n.addPeers(&h)
	n.addHealthCheck(&h)
	addLeader(&h, v)
	n.addRole(&h, seen)

	return h
}

// addRole adds the role of the node. seen is whether it has read the record of the election.
func (n *Node) addRole(h *Health, seen bool) {
	t, leads := n.Member.Leads(n.opts.Election)
	switch {
	case leads:
		h.Role = Leader
		h.LeaseRemainingMs = t.Remaining().Milliseconds()
		h.Epoch = t.Epoch
		h.Leader = n.Member.ID
		h.LeaderAddr = n.opts.Addr
		delete(h.Checks, "leader")
		return
	case !h.Store.Reachable && h.Store.AnsweredMs >= 0:
		h.Role = Unknown
	case !seen:
		h.Role = Starting
	case n.opts.Config.Ineligible:
		h.Role = Observer
	default:
		h.Role = Standby
	}

	// The record may still show a term of this node that has ended, or that of another process with its ID.
	if h.Leader == n.Member.ID && n.Member.Blocked() == "" {
		h.Leader = ""
		h.LeaderAddr = ""
	}
}

// addLeader adds the age of the leader's heartbeat. A leader whose heartbeat has expired does not lead, although it is
// in the record.
func addLeader(h *Health, v regent.View) {
	h.HeartbeatAgeMs = v.HeartbeatAge.Milliseconds()
	if !v.Expired {
		return
	}

	age := ""
	if v.HeartbeatAge > 0 {
		age = fmt.Sprintf("its last heartbeat came %v ago, and ", v.HeartbeatAge.Round(time.Millisecond))
	}
	h.Checks["leader"] = fmt.Sprintf("%s leads no more: %snobody has taken over", v.Leader, age)
	h.Leader = ""
	h.LeaderAddr = ""
}

// Live returns an error if the node's own loop is stuck. It makes no request to the store.
func (n *Node) Live() error {
	if lag := n.Member.Stats().LoopLag; lag > stuckAfter {
		return fmt.Errorf("the node's loop is overdue by %v", lag.Round(time.Second))
	}

	return nil
}
