package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// EventConfigDiffers says that another member has another configuration. Metadata: member, incarnation, addr, key, own,
// theirs, error.
const EventConfigDiffers regent.EventKind = "member:config_differs"

// Difference is a key with another value in the configuration of another member.
type Difference struct {
	Member string `json:"member"`
	Addr   string `json:"addr,omitempty"`
	Key    string `json:"key"`
	Own    string `json:"own"`
	Theirs string `json:"theirs"`
	Text   string `json:"text"` // with the consequence
}

// comparedFacts are the facts that are compared, with their keys and the consequences of a difference.
var comparedFacts = []struct{ fact, key, consequence string }{
	{factToken, "token", "each refuses what the other one sends"},
	{factLease, "leaseDuration", "takeovers take as long as the lease of the leader that died"},
	{factDelay, "takeoverDelay", "takeovers take as long as the delay of whoever takes over"},
	{factRank, "rank", "each prefers other candidates"},
	{factProfile, "profile", "the nodes elect by different rules"},
	{factVersion, "version", "a rolling upgrade, or a node that was left behind"},
}

// differences compares the facts of a member with those of this node, self. A member without facts is an older one, or
// no node.
func differences(self string, own map[string]string, v regent.MemberView) []Difference {
	var found []Difference
	for _, c := range comparedFacts {
		mine := own[c.fact]
		theirs := clip(v.Facts[c.fact], maxFact)
		if mine == "" || theirs == "" || mine == theirs {
			continue
		}

		if c.fact == factToken {
			mine = concealed(mine, "set")
			theirs = concealed(theirs, "another one")
		}
		id := clip(v.ID, driver.MaxName)
		text := fmt.Sprintf("%s has %s %s, %s has %s: %s", id, c.key, theirs, self, mine, c.consequence)
		if c.fact == factToken {
			text = tokensDiffer(id, theirs, self, mine) + ": " + c.consequence
		}
		found = append(found, Difference{
			Member: id,
			Addr:   clip(v.Addr, maxFact),
			Key:    c.key,
			Own:    mine,
			Theirs: theirs,
			Text:   text,
		})
	}

	return found
}

// tokensDiffer says how the tokens of two members differ, without showing one.
func tokensDiffer(member, theirs, self, own string) string {
	switch noToken {
	case theirs:
		return fmt.Sprintf("%s has no token, %s has one", member, self)
	case own:
		return fmt.Sprintf("%s has a token, %s has none", member, self)
	}
	return fmt.Sprintf("%s has another token than %s", member, self)
}

// maxFact is the most bytes of a fact of another member that are passed on.
const maxFact = 100

// clip returns at most n bytes of a text, without a part of a character. Texts of other members need it, since
// everybody who can write the store can write anything.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}

	return strings.ToValidUTF8(s[:n], "")
}

// concealed returns what is shown instead of the digest of a token.
func concealed(digest, otherwise string) string {
	if digest == noToken {
		return noToken
	}

	return otherwise
}

// peers is what a node knows about the configuration of other nodes. The zero value is ready for use.
type peers struct {
	mu      sync.Mutex
	known   []Difference
	emitted map[string]bool // differences that an event was sent for
}

// maxEmitted is the most events that are remembered; beyond it, some are sent again.
const maxEmitted = 10_000

// compare compares this node with members, which replace those that were compared before.
func (p *peers) compare(self string, own map[string]string, emit func(regent.Event), views ...regent.MemberView) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = nil
	if p.emitted == nil || len(p.emitted) > maxEmitted {
		p.emitted = map[string]bool{}
	}

	for _, v := range views {
		if v.Incarnation == "" { // it has left
			continue
		}
		for _, d := range differences(self, own, v) {
			p.known = append(p.known, d)
			p.emitOnceLocked(v, d, emit)
		}
	}
}

// emitOnceLocked sends an event for a difference, once for each incarnation and key: a member that changes the value
// again and again causes one event.
func (p *peers) emitOnceLocked(v regent.MemberView, d Difference, emit func(regent.Event)) {
	id := strings.Join([]string{v.ID, v.Incarnation, d.Key}, "\x00")
	if p.emitted[id] {
		return
	}

	p.emitted[id] = true
	emit(regent.Event{Kind: EventConfigDiffers, Metadata: map[string]string{
		"member":      d.Member,
		"incarnation": clip(v.Incarnation, maxFact),
		"addr":        d.Addr,
		"key":         d.Key,
		"own":         d.Own,
		"theirs":      d.Theirs,
		"error":       d.Text,
	}})
}

func (p *peers) differences() []Difference {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.known)
}

// compareWithMembers compares the configuration of members with this node's own, if it leads.
func (n *Node) compareWithMembers(members []regent.MemberState) {
	if _, leads := n.Member.Leads(n.opts.Election); !leads {
		return
	}

	var others []regent.MemberView
	for _, m := range members {
		if m.ID != n.Member.ID {
			others = append(others, m.MemberView)
		}
	}
	n.peers.compare(n.Member.ID, n.published(), n.Member.Emit, others...)
}

// compareWithLeader compares the configuration of the leader with this node's own, until ctx ends: the leader warns of
// this node, and this node of the leader. It makes no request to the store.
func (n *Node) compareWithLeader(ctx context.Context) {
	tick := time.NewTicker(max(n.opts.Config.HeartbeatInterval/2, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}

		if _, leads := n.Member.Leads(n.opts.Election); leads {
			continue
		}
		if v, known := n.Member.Holder(n.opts.Election); known {
			n.peers.compare(n.Member.ID, n.published(), n.Member.Emit, v)
		}
	}
}

// addPeers adds to the node's health which members have another configuration, and whether one has its ID.
func (n *Node) addPeers(h *Health) {
	h.Checks["config"] = ok
	h.Checks["member"] = ok
	if why := n.Member.Blocked(); why != "" {
		h.Checks["member"] = why
	}

	h.Differs = n.peers.differences()
	for _, d := range h.Differs {
		if d.Key != factVersion { // another version is no fault during an upgrade
			h.Checks["config"] = d.Text
			return
		}
	}
}
