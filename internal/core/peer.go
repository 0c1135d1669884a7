package core

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is what one register of a list shows.

// peer is another member.
type peer struct {
	standing
	who       driver.Identity
	rev       string
	nonce     uint64
	edits     uint64
	data      []byte
	since     Time // when this heartbeat was first received
	lease     time.Duration
	round     uint64
	live      bool // its heartbeat had not expired when it was last listed
	beats     bool // it was seen to send a heartbeat
	candidate bool // in the elections that it names
	elections []string
	points    []uint64 // its places on the ring
}

// takeMember takes in the register of a member, and returns what that has cost.
func (c *Core) takeMember(rec *driver.Record) int {
	r := &c.roster
	if rec.Name == c.member.rec.Name {
		return 1
	}

	if r.came.kind == listCall {
		c.showSight(rec)
	} else {
		c.skimSight(rec)
	}

	i, ok := r.byName[rec.Name]
	if rec.Vacant() || rec.Name != driver.MemberRegister(rec.Holder.ID) { // else something else has written it
		if ok {
			c.dropPeer(i)
		}
		return 1
	}

	if r.byName == nil {
		r.byName = map[string]uint32{}
		r.named = map[string]order{}
	}

	if !ok {
		i = r.peers.add(&peer{})
		r.byName[rec.Name] = i
	}

	p := r.peers.all[i]
	p.round = r.round
	edited := rec.Holder == p.who && rec.Nonce == p.nonce && rec.Edits > p.edits // which gives no time (rule 2)
	if rec.Rev != p.rev && !edited {
		p.beats = ok
		p.since = c.watchedSince(rec)
	}

	p.rev = rec.Rev
	p.nonce = rec.Nonce
	p.edits = rec.Edits
	p.lease = rec.Duration

	live := c.now < p.since.Add(p.lease) && !c.provedDead(rec)
	if ok && live == p.live && rec.Holder == p.who && bytes.Equal(rec.Data, p.data) {
		return 1
	}

	cost := 8 + len(p.elections) + len(rec.Data)/32
	c.unrank(i)
	p.who = rec.Holder
	p.live = live
	p.data = rec.Data
	c.rank.learn(p)
	c.enrank(i)
	return cost + len(p.elections) + 2*len(p.points)
}

// watchedSince is when a heartbeat was first received: now, unless it is watched already.
func (c *Core) watchedSince(rec *driver.Record) Time {
	if i, ok := c.sighted[rec.Name]; ok {
		if w := &c.sights.all[i].watch; w.seen && w.rec.Rev == rec.Rev {
			return w.since
		}
	}

	return c.now
}

// learn reads what a member says of itself. One whose register cannot be read says nothing, and is no candidate.
func (k *ranking) learn(p *peer) {
	var says struct {
		Eligible  bool     `json:"eligible"`
		Healthy   bool     `json:"healthy"`
		Priority  int      `json:"priority"`
		Region    string   `json:"region"`
		LatencyMs float64  `json:"latencyMs"`
		Elections []string `json:"elections"`
	}
	readable := json.Unmarshal(p.data, &says) == nil
	p.standing = standing{p.who.ID, k.place(says.Priority, says.Region, readLatency(says.LatencyMs))}
	p.candidate = readable && p.live && says.Eligible && says.Healthy
	p.elections = nil
	if p.candidate {
		slices.Sort(says.Elections)
		p.elections = slices.Compact(says.Elections)
	}

	if slices.Contains(p.elections, everyElection) {
		p.elections = []string{everyElection}
	}
}

// everyElection stands for more elections than a member lists.
const everyElection = "*"
