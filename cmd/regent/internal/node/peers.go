package node

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// EventConfigDiffers says that another member is configured differently. Metadata: member, incarnation, addr, key,
// own, theirs, error.
const EventConfigDiffers = "member:config_differs"

// The facts that members publish of themselves and that others compare. Host and pid are for people.
const (
	factToken   = "token"
	factLease   = "lease"
	factProfile = "profile"
	factVersion = "version"
	factHost    = "host"
	factPID     = "pid"
)

// Facts returns what a node publishes of itself, for others to compare and for people to find it.
func Facts(election, token, profile, version string, lease time.Duration) (map[string]string, error) {
	digest, err := tokenDigest(token, election)
	if err != nil {
		return nil, fmt.Errorf("digest of the token: %w", err)
	}
	facts := Process()
	facts[factToken] = digest
	facts[factLease] = lease.String()
	facts[factProfile] = profile
	facts[factVersion] = version
	return facts, nil
}

// Process returns the facts by which people find this process: its host and its pid. Nobody compares them.
func Process() map[string]string {
	facts := map[string]string{factPID: strconv.Itoa(os.Getpid())}
	if host, err := os.Hostname(); err == nil {
		facts[factHost] = host
	}
	return facts
}

// noToken is published by a node that has none.
const noToken = "none"

// Whoever reads the store sees the digest of the token. It is slow to compute, and only 16 bits of it are
// published: a guess can be refuted by it, at a cost, but never confirmed. Two different tokens look the same once
// in 65,536 cases.
const (
	digestRounds = 200_000
	digestBytes  = 2
)

func tokenDigest(token, election string) (string, error) {
	if token == "" {
		return noToken, nil
	}
	sum, err := pbkdf2.Key(sha256.New, token, []byte("regent cluster token\x00"+election), digestRounds, sha256.Size)
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum[:digestBytes]), nil
}

// Difference is a key that another member has configured differently.
type Difference struct {
	Member string `json:"member"`
	Addr   string `json:"addr,omitempty"`
	Key    string `json:"key"`
	Own    string `json:"own"`
	Theirs string `json:"theirs"`
	Text   string `json:"text"` // what follows from it
}

// consequences says for each key that is compared what follows if it differs.
var consequences = map[string]string{
	factToken:   "each refuses what the other one sends",
	factLease:   "takeovers take as long as the lease of the leader that died",
	factProfile: "the nodes elect by different rules",
	factVersion: "a rolling upgrade, or a node that was left behind",
}

// named returns the key of the configuration that a fact is about.
func named(fact string) string {
	if fact == factLease {
		return "leaseDuration"
	}
	return fact
}

// differences compares what a member publishes with this node's own facts. A member that publishes none is an
// older one, or no node.
func differences(own map[string]string, v regent.MemberView) []Difference {
	var found []Difference
	for _, key := range []string{factToken, factLease, factProfile, factVersion} {
		mine, theirs := own[key], v.Facts[key]
		theirs = brief(theirs, maxBrief)
		if mine == "" || theirs == "" || mine == theirs {
			continue
		}
		if key == factToken {
			mine, theirs = concealed(mine, "set"), concealed(theirs, "another one")
		}
		d := Difference{Member: brief(v.ID, driver.MaxName), Addr: brief(v.Addr, maxBrief), Key: named(key), Own: mine, Theirs: theirs}
		d.Text = fmt.Sprintf("%s has %s %s, this node has %s: %s", d.Member, d.Key, theirs, mine, consequences[key])
		found = append(found, d)
	}
	return found
}

// maxBrief is how many bytes are passed on of what another member publishes.
const maxBrief = 100

// brief returns at most n bytes of a text, and whole characters only: anybody who can write the store can write anything.
func brief(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

func concealed(digest, otherwise string) string {
	if digest == noToken {
		return noToken
	}
	return otherwise
}

// peers is what a node knows of the configuration of the others. The zero value knows nothing.
type peers struct {
	mu    sync.Mutex
	known []Difference
	told  map[string]bool // what an event was sent for
}

// maxTold bounds the memory of events that were sent; beyond it some are sent again.
const maxTold = 10_000

// see compares this node with members, which replace those that were compared before.
func (p *peers) see(own map[string]string, emit func(regent.Event), views ...regent.MemberView) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = nil
	if p.told == nil || len(p.told) > maxTold {
		p.told = map[string]bool{}
	}
	for _, v := range views {
		if v.Incarnation == "" { // it has left
			continue
		}
		for _, d := range differences(own, v) {
			p.known = append(p.known, d)
			id := strings.Join([]string{v.ID, v.Incarnation, d.Key}, "\x00") // so that one who changes it all the time is told of once
			if p.told[id] {
				continue
			}
			p.told[id] = true
			emit(regent.Event{Kind: EventConfigDiffers, Metadata: map[string]string{"member": d.Member,
				"incarnation": brief(v.Incarnation, maxBrief), "addr": d.Addr, "key": d.Key, "own": d.Own, "theirs": d.Theirs,
				"error": d.Text}})
		}
	}
}

func (p *peers) differs() []Difference {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.known)
}

// Publish replaces what others are told of this node, and what it compares with them.
func (n *Node) Publish(facts map[string]string) error {
	if err := n.Member.SetFacts(facts); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.facts = facts
	return nil
}

// published is what others are told of this node.
func (n *Node) published() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.facts
}

// members lists the members for what a leader does, and compares their configuration with its own.
func (n *Node) members(ctx context.Context) ([]regent.MemberView, error) {
	views, err := n.Member.Members(ctx)
	if _, leads := n.Member.Leads(n.opts.Election); err == nil && leads {
		others := slices.DeleteFunc(slices.Clone(views), func(v regent.MemberView) bool { return v.ID == n.Member.ID })
		n.peers.see(n.published(), n.Member.Emit, others...)
	}
	return views, err
}

// watchLeader compares the configuration of whoever leads with this node's own: the leader warns of this node, and
// this node of the leader. It asks the store for nothing.
func (n *Node) watchLeader(ctx context.Context) {
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
			n.peers.see(n.published(), n.Member.Emit, v)
		}
	}
}

// tellPeers adds what this node knows of others to its health: who is configured differently, and who has its ID.
func (n *Node) tellPeers(h *Health) {
	h.Checks["config"] = ok
	h.Checks["member"] = ok
	if why := n.Member.Blocked(); why != "" {
		h.Checks["member"] = why
	}
	h.Differs = n.peers.differs()
	for _, d := range h.Differs {
		if d.Key != factVersion { // which is no fault while nodes are upgraded
			h.Checks["config"] = d.Text
			return
		}
	}
}
