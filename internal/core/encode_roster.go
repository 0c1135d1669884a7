package core

import (
	"maps"
	"slices"
	"strings"
)

// ranked encodes what decides who should lead.
func (x *encoder) ranked(c *Core) {
	x.flags(c.failing, c.subscribed, c.outranked)
	if !c.subscribed {
		x.ahead(c.readFrom)
	}

	x.ahead(c.coldStartEnd(nil))
	if c.spreads() { // the member's phase counts from the beginning of time
		x.number(int(x.now % Time(c.cfg.ElectionInterval)))
		x.number(int(x.now % Time(c.cfg.ElectionIntervalMax)))
		x.number(int(x.now % Time(c.cfg.LeaseDuration)))
	}

	if c.rank.kind == rankLatency {
		x.number(int(c.latency))
		for _, l := range c.stats.Latencies {
			x.number(int(l))
		}
	}

	x.roster(c)
}

func (x *encoder) roster(c *Core) {
	r := &c.roster
	used := c.cfg.Watchers > 0 || r.known || len(r.byName) > 0 || r.wanted || r.call.id != 0 ||
		r.queued || r.place >= 0
	x.flags(used)
	if !used {
		return
	}

	x.entity(&r.entity)
	x.flags(r.known, r.wanted, r.attending, c.recent())
	if r.wanted {
		x.seek(r.seek)
	}

	if r.call.id != 0 || len(r.coming) > 0 {
		x.seek(r.sought)
		x.flags(len(r.coming) > 0 && r.partial)
	}

	if c.recent() {
		x.within(r.listedAt, c.recentFor())
	}

	if c.cfg.Watchers > 0 {
		x.watchers(c)
	}

	x.ahead(r.retryAt)
	x.ahead(r.handoverAt)
	x.ahead(r.preemptAt)
	x.number(r.left)
	for _, all := range [...][]ref{r.waiting, r.waking} {
		x.number(len(all))
		for _, w := range all {
			x.number(int(w))
		}
	}

	x.number(len(r.coming))
	for i := range r.coming {
		x.text(r.coming[i].Name)
		x.record(&r.coming[i])
	}

	x.number(len(r.peers.all))
	for _, p := range r.peers.all {
		x.flags(p != nil)
		if p != nil {
			x.peer(p, len(r.coming) > 0 && p.round == r.round)
		}
	}
}

// texts encodes a list of names.
func (x *encoder) texts(all []string) {
	x.number(len(all))
	for _, s := range all {
		x.text(s)
	}
}

// seek encodes where a list may end.
func (x *encoder) seek(s *Seek) {
	x.flags(s != nil)
	if s == nil {
		return
	}

	x.text(s.election)
	x.identity(s.but, true)
	x.number(s.self.place)
	x.number(len(s.dead))
	for _, name := range slices.Sorted(maps.Keys(s.dead)) {
		x.text(name)
		x.unsigned(x.canon.Rev(s.dead[name]))
	}
}

// watchers encodes what decides whom this member names as its watchers.
func (x *encoder) watchers(c *Core) {
	r := &c.roster
	x.number(r.appointSoon)
	x.number(int(x.now % Time(c.idleTime(0)))) // a standby's phase counts from the beginning of time
	x.flags(r.skims, r.came.kind == listCall, c.notified, r.informs, r.heard != nil)
	x.texts(r.uninformed)
	x.texts(r.informing)
	x.ahead(r.informAt)
	x.within(r.appointedAt, c.cfg.LeaseDuration)
	x.text(string(r.published))
	if heard := c.heardLately(); heard != nil {
		x.text(strings.Join(heard.IDs, " "))
		x.text(strings.Join(heard.Elections, " "))
		x.within(r.heardAt, 2*c.cfg.LeaseDuration)
	}

	for _, p := range r.peers.all {
		x.flags(p != nil && p.beats)
	}
}

func (x *encoder) peer(p *peer, listed bool) {
	x.identity(p.who, true)
	x.unsigned(x.canon.Rev(p.rev))
	x.unsigned(x.canon.Nonce(p.nonce))
	x.unsigned(p.edits)
	x.text(string(p.data))
	x.flags(p.live, listed)
	if p.live {
		x.within(p.since, p.lease)
	}
}

// preference encodes what decides whether an election is left to somebody else.
func (x *encoder) preference(c *Core, e *election) {
	x.flags(e.loose, e.claimed, e.led.in, e.rival.in)
	x.ahead(e.standBack)
	x.flags(c.outrankedLately(e), c.bestLately(e))
	if c.outrankedLately(e) {
		x.within(e.betterAt, c.recentFor())
	}

	if c.bestLately(e) {
		x.within(e.bestAt, c.recentFor())
	}

	if c.rank.kind == rankFirst && !c.failing {
		return
	}

	x.identity(e.lastHeld.Holder, true)
	if e.open {
		x.age(e.openSince)
	}

	if c.rank.kind == rankLexicographic {
		x.flags(e.foundHeld, e.seenHeld, e.seenLed, e.own.renewed)
	}
}
