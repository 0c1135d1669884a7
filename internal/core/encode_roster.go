package core

// ranked encodes what decides who should lead.
func (x *encoder) ranked(c *Core) {
	x.flags(c.failing, c.subscribed, c.outranked)
	if !c.subscribed {
		x.ahead(c.lookAt)
	}

	x.ahead(c.coldStartEnd(nil))
	if c.spreads() { // the member's phase counts from the beginning of time
		x.number(int(x.now % Time(c.cfg.ElectionInterval)))
		x.number(int(x.now % Time(c.cfg.ElectionIntervalMax)))
		x.number(int(x.now % Time(c.cfg.LeaseDuration)))
	}

	x.roster(c)
}

func (x *encoder) roster(c *Core) {
	r := &c.roster
	used := r.known || r.wanted || r.call.id != 0 || r.queued || r.place >= 0
	x.flags(used)
	if !used {
		return
	}

	x.entity(&r.entity)
	x.flags(r.known, r.wanted, r.attending, c.recent())
	if c.recent() {
		x.within(r.listedAt, c.recentFor())
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
