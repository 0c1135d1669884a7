package core

import (
	"slices"

	"github.com/regentd/regent/driver"
)

// This file is the list of a candidate that only has to know whether a better one is there. It ends at the first, and
// under rank lexicographic it shows no member with a larger ID. So of a fleet that starts at once each member reads a
// few others, and the smallest reads none.

// Seek is where a List may end: at the first candidate that should have an election rather than the member that lists.
// It is never changed.
type Seek struct {
	rank     ranking
	self     standing
	election string
	but      driver.Identity   // who has just released it, and may not have left yet
	dead     map[string]string // the revisions of registers whose heartbeats have expired
}

// Found reports whether a record is that of a better candidate.
func (s *Seek) Found(rec *driver.Record) bool {
	if rec.Vacant() || rec.Duration <= 0 || rec.Holder == s.but || rec.Name != driver.MemberRegister(rec.Holder.ID) {
		return false
	}

	if rev, ok := s.dead[rec.Name]; ok && rev == rec.Rev || rec.Holder.ID == s.self.id {
		return false
	}

	p := peer{who: rec.Holder, data: rec.Data, live: true}
	s.rank.learn(&p)
	runs := slices.Contains(p.elections, s.election) || slices.Contains(p.elections, everyElection)
	return runs && s.rank.compare(p.standing, s.self) < 0
}

// Before returns the name from which on registers are left out, or "" if none are.
func (s *Seek) Before() string {
	if s == nil || s.rank.kind != rankLexicographic {
		return ""
	}

	return driver.MemberRegister(s.self.id)
}

// End returns what a list shows of records that come in that order, and whether it ends at a better candidate. Without
// a Seek it shows all of them.
func (s *Seek) End(all []driver.Record) (shown []driver.Record, partial bool) {
	for i := range all {
		if before := s.Before(); before != "" && all[i].Name >= before {
			continue
		}

		shown = append(shown, all[i])
		if s != nil && s.Found(&all[i]) {
			return shown, true
		}
	}

	return shown, false
}

// seekOf returns where a request may end.
func (c *Core) seekOf(kind callKind) *Seek {
	if kind == listCall {
		return c.roster.sought
	}

	return nil
}

// listBetter has the members listed up to the first that should have an election rather than this member.
func (c *Core) listBetter(e *election, crowded bool) {
	r := &c.roster
	if c.rank.kind == rankFirst || crowded || r.wanted || c.now < r.retryAt { // or all are wanted for something else
		c.listSoon()
		return
	}

	s := &Seek{rank: c.rank, self: c.self(), election: e.name, but: e.lastHeld.Holder}
	for _, p := range r.peers.all {
		if p != nil && (!p.live || c.now >= p.since.Add(p.lease)) {
			if s.dead == nil {
				s.dead = map[string]string{}
			}
			s.dead[driver.MemberRegister(p.who.ID)] = p.rev
		}
	}

	r.seek = s
	r.wanted = true
	c.enqueue(r.ref)
}

// soughtTaken ends a list that does not show all members. Should the better candidate at which it has ended turn out to
// be silent for too long, the next list goes past it.
func (c *Core) soughtTaken() {
	r := &c.roster
	i, ok := c.names[r.sought.election]
	switch {
	case ok && r.partial:
		c.elections.all[i].betterAt = max(c.now, 1)
	case ok:
		c.elections.all[i].bestAt = max(c.now, 1)
	}

	c.listOver()
}

// bestLately reports whether a list has shown a short time ago that no other candidate should have an election.
func (c *Core) bestLately(e *election) bool {
	return e.bestAt != 0 && c.now < e.bestAt.Add(c.recentFor())
}

// outrankedLately reports whether a list has shown a short time ago that another candidate should have an election.
func (c *Core) outrankedLately(e *election) bool {
	return e.betterAt != 0 && c.now < e.betterAt.Add(c.recentFor())
}
