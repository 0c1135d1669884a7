package core

import (
	"encoding/json"
	"slices"
)

// learnPeer reads what a member says of itself. One whose register cannot be read says nothing, and is no candidate.
func (c *Core) learnPeer(p *peer) {
	var says struct {
		Eligible  bool     `json:"eligible"`
		Healthy   bool     `json:"healthy"`
		Priority  int      `json:"priority"`
		Region    string   `json:"region"`
		Elections []string `json:"elections"`
	}
	readable := json.Unmarshal(p.data, &says) == nil
	p.standing = standing{p.who.ID, c.rank.place(says.Priority, says.Region)}
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
