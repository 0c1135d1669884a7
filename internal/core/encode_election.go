package core

func (x *encoder) election(c *Core, e *election) {
	x.entity(&e.entity)
	x.flags(e.wanted, e.seen, e.stale, e.fresh != c.refresh, e.open, e.waits, e.saving, e.clash)
	x.number(e.watchers)
	if c.cfg.Rest > 0 && e.heldAt != 0 {
		x.within(e.heldAt, c.floorLife())
	}

	x.unsigned(x.canon.Epoch(e.name, c.memory[e.name]))
	if e.seen {
		x.record(&e.rec)
	}

	if c.followed(e) && e.rec.Via == "" {
		x.watch(&e.own, c.cfg.TakeoverDelay, &e.call)
	}

	x.retry(c, &e.retry)
	x.ahead(e.hold)
	x.ahead(e.pollAt)
	if c.cfg.ElectionIntervalMax > c.cfg.ElectionInterval {
		x.number(min(e.quiet, 8))
	}

	x.flags(e.check != 0, e.tidied, e.withdrawn, e.exhausted, e.vanished, e.released, e.sank)
	x.ahead(e.check)
	x.ahead(e.barred)
	x.unsigned(x.canon.Epoch(e.name, e.barredFor))
	x.unsigned(x.canon.Epoch(e.name, e.shown))
	x.identity(e.forgotten, false)
	x.unsigned(x.canon.Epoch(e.name, e.lastHeld.Epoch))
	x.text(e.lastHeld.Holder.ID)
	if e.open && (e.rec.Next != "" || c.returned(&e.rec)) {
		x.within(e.openSince, c.cfg.HeartbeatInterval)
	}

	x.ahead(e.holdBack)
	x.preference(c, e)
	x.identity(e.unreleased, false)
	x.number(min(e.fencedRow, 12)) // more refusals wait no longer
	x.text(string(e.doom))
	x.vacating(&e.vac)
	x.proofs(c, e)
	x.claims(c, e)
	x.term(c, e)

	x.number(len(e.saves))
	for _, s := range e.saves {
		x.text(string(s.Data))
	}

	if e.saving {
		x.unsigned(x.canon.Rev(e.saveRev))
	}

	x.number(len(e.asks))
	for _, a := range e.asks {
		x.text(a.to)
		x.flags(a.pause, a.resume, a.read)
		x.unsigned(x.canon.Epoch(e.name, a.at))
		x.ahead(a.until)
	}
}

// known encodes the records that this member may claim on without a read.
func (x *encoder) known(c *Core) {
	for i := range c.known {
		if k := &c.known[i]; c.lately(k) {
			x.text(k.rec.Name)
			x.record(&k.rec)
			x.within(k.at, c.cfg.ElectionInterval)
		}
	}

	x.number(-1)
}

// proofs encodes what the election may take from its heartbeat register: by the last read, and by one that is under
// way.
func (x *encoder) proofs(c *Core, e *election) {
	i, ok := c.sighted[e.rec.Via]
	if !ok {
		x.number(-1)
		return
	}

	s := c.sights.all[i]
	x.number(int(i))
	x.flags(s.proof > e.after, s.call.id>>32 > e.after)
}

// claims encodes the claims that may still come true.
func (x *encoder) claims(c *Core, e *election) {
	for _, k := range e.claims {
		if n := x.canon.Nonce(k.nonce); n != 0 {
			x.unsigned(n)
			x.identity(k.who, true)
			x.unsigned(x.canon.Epoch(e.name, k.epoch))
			if c.cfg.OwnLease { // else the member's heartbeat decides
				x.within(k.sent, c.cfg.LeaseDuration)
			}

			if c.cfg.Rest > 0 {
				x.within(k.floor, c.floorLife())
			}
		}
	}

	x.flags(len(e.claims) > 0)
}

func (x *encoder) term(c *Core, e *election) {
	t := &e.term
	x.number(int(t.state))
	if t.state == noTerm {
		return
	}

	x.unsigned(x.canon.Epoch(e.name, t.epoch))
	x.identity(t.who, true)
	x.text(string(t.cause))
	x.text(t.next)
	x.flags(t.stuck, t.asked != 0)
	x.ahead(t.stuckAt)
	if c.cfg.OwnLease {
		x.beat(&e.beat)
	}
}
