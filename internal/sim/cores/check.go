package cores

import (
	"bytes"
	"slices"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// This file checks what a process sends and what the store takes. check_term.go checks terms.

// checkSend checks a request when it is sent.
func (p *proc) checkSend(e *core.Send, reg *register) {
	s := p.sim
	now := p.clock()
	if now < p.startedAt.Add(p.cfg.StartDelay) {
		s.fail("rule 11: p%d sends a request before its start-up jitter has passed", p.index)
	}

	p.checkSpin()
	p.lastSent = e.ID >> 32
	if e.Verb != core.Swap {
		if reg == p.register {
			p.mustJoin = 0
			p.joins = true
		}

		return
	}

	v := p.view(reg)
	r := &e.Record
	switch {
	case reg.floor:
	case reg.member && r.Vacant() && s.made(reg.rec.Holder, p, p.run): // it leaves
	case reg.member && r.Vacant() && !s.made(v.holder, p, p.run):
		delay := p.cfg.TakeoverDelay
		if v.holder.ID == p.cfg.ID {
			delay = 0
		}

		p.checkTaken(v, r, delay)
	case reg.member && !r.Vacant() && r.Holder.ID == p.cfg.ID && s.made(r.Holder, p, p.run):
		p.checkHeartbeat(r)
	case !reg.member && r.Epoch > v.highest:
		p.checkClaim(v, r)
	case !reg.member && !r.Vacant() && s.made(r.Holder, p, p.run):
		p.checkOwnWrite(v, r)
	}
}

// checkTaken checks that a record is taken from its holder only by one who has watched it for its whole lease (rule 2),
// and has read it again after the takeover delay (rule 10).
func (p *proc) checkTaken(v *view, r *driver.Record, delay time.Duration) {
	s := p.sim
	if v.rev != r.Rev { // it has learned something else meanwhile, by a list for example; the store will refuse it
		return
	}

	if d := &v.direct; d.rev == r.Rev && time.Duration(d.began-d.since) >= v.duration+delay {
		return
	}

	if watched := time.Duration(p.clock() - v.since); watched < v.duration {
		s.fail("rule 2: p%d takes %s from %s after watching it for %v of %v", p.index, v.reg.name, v.holder, watched,
			v.duration)
	}

	if read := time.Duration(v.began - v.since); read < v.duration+delay {
		s.fail("rule 10: p%d takes %s from %s by a read from %v after it first saw it, and not %v", p.index, v.reg.name,
			v.holder, read, v.duration+delay)
	}
}

// checkHeartbeat checks that no heartbeat is sent after the deadline, or by an incarnation that has ended.
func (p *proc) checkHeartbeat(r *driver.Record) {
	s := p.sim
	switch {
	case !p.writes:
		s.fail("p%d sends a heartbeat although WritesInfo was false: what the member publishes may be old", p.index)
	case r.Holder == p.endedAs:
		s.fail("rule 3: p%d sends a heartbeat of %s, which has ended", p.index, r.Holder)
	case p.joinedAs == r.Holder && p.beat != 0 && p.clock() >= p.beat:
		s.fail("rule 9: p%d sends a heartbeat %v after its deadline", p.index, time.Duration(p.clock()-p.beat))
	}

	p.joinedAs = r.Holder
}

// checkClaim checks a claim when it is sent.
func (p *proc) checkClaim(v *view, r *driver.Record) {
	s := p.sim
	now := p.clock()
	if p.noticed {
		s.reached |= ClaimedOnNotice
	}

	if !s.made(r.Holder, p, p.run) {
		s.fail("rule 6: p%d claims %s for %s", p.index, v.reg.name, r.Holder)
	}

	if r.Via != "" && (r.Holder != p.joinedAs || now >= p.beat) {
		s.fail("rule 1: p%d claims %s without a heartbeat of its own that counts", p.index, v.reg.name)
	}

	if p.returns && (v.holder == driver.Identity{}) { // else it was still interested in the election
		p.checkKnown(v, r)
	}

	if v.rev != r.Rev {
		return // on a notification
	}

	if v.fell && !v.excused {
		if waited := time.Duration(now - v.fellAt); waited < p.cfg.LeaseDuration {
			s.fail("rule 5: p%d claims %s, which shows epoch %d after %d, %v after it was shown that", p.index,
				v.reg.name,
				v.epoch, v.highest, waited)
		}

		s.reached |= WaitedAfterRollback
	}

	if (v.holder == driver.Identity{}) {
		return
	}

	if v.via == "" {
		p.checkTaken(v, r, p.cfg.TakeoverDelay)
		return
	}

	m := p.find(v.via)
	forgotten := m != nil && !m.reg.removed && m.forgets(v.holder) && v.forgotten == v.holder
	if forgotten && !s.made(v.holder, p, p.run) {
		if waited := time.Duration(now - v.forgotAt); waited < p.cfg.LeaseDuration {
			s.fail("rule 5: p%d claims %s from %s, whose joining the store has forgotten, %v after it was shown that",
				p.index, v.reg.name, v.holder, waited)
		}

		s.reached |= WaitedAfterRollback
	}
}

// checkKnown checks a claim that follows a candidacy without a read: it is on the very record that the process was
// shown last, of the highest epoch that the process knows. A process that has gone on watching the election may have
// been shown that the store has lost writes, and checkClaim demands the wait, or that the register may have been
// removed.
func (p *proc) checkKnown(v *view, r *driver.Record) {
	s := p.sim
	s.reached |= ClaimedKnown
	switch {
	case v.rev != r.Rev:
		s.fail("rule 4: p%d claims %s without a read on revision %s, and was shown %s since", p.index, v.reg.name,
			r.Rev, v.rev)
	case v.epoch < v.highest && v.highest > v.covered && !v.fell:
		s.fail("rule 5: p%d claims %s without a read on epoch %d, and knows of %d", p.index, v.reg.name, v.epoch,
			v.highest)
	}
}

// checkOwnWrite checks a renewal or a checkpoint: neither is sent after the deadline of its term.
func (p *proc) checkOwnWrite(v *view, r *driver.Record) {
	i := p.sim.places[v.reg.name]
	t := p.term(i)
	if t.epoch != r.Epoch || t.incarnation != r.Holder.Incarnation || r.Edits > v.edits && r.Next != "" {
		return // it asks something of a term of its own
	}

	renews := t.own && r.Nonce > p.before
	saves := slices.ContainsFunc(p.asked, func(a asked) bool { return a.save != "" && a.save == string(r.Data) })
	if now := p.clock(); (renews || saves) && now >= p.deadline(i) {
		p.sim.fail("rule 9: p%d writes %s %v after the deadline of its term", p.index, v.reg.name,
			time.Duration(now-p.deadline(i)))
	}
}

// checkSpin fails if a process sends requests again and again.
func (p *proc) checkSpin() {
	const most = 400 // in a second: a conflict is waited for 20 ms, and each of a few registers may meet one
	p.sent++
	if p.sent > most {
		p.sim.fail("p%d sends more than %d requests in a second", p.index, most)
	}
}

// checkSteps fails if a process is called again and again.
func (p *proc) checkSteps() {
	const most = 3000 // in a second: each request has an answer and a time, and each change a notification
	if second := p.sim.now / time.Second; second != p.second {
		p.second = second
		p.sent = 0
		p.stepped = 0
	}

	p.stepped++
	if p.stepped > most {
		p.sim.fail("p%d is called more than %d times in a second", p.index, most)
	}
}

// checkMember checks a write to a member register.
func (s *sim) checkMember(q *request, before *driver.Record) {
	p := q.proc
	after := &q.reg.rec
	switch {
	case after.Vacant() && !before.Vacant() && before.Holder.ID != p.cfg.ID:
		s.reached |= RevokedHeartbeat
		s.checkRevoked(q.reg, before)
	case after.Vacant() || after.Holder == before.Holder:
	case !before.Vacant() && !s.made(before.Holder, p, q.run):
		s.fail("p%d joins over %s, which it has not ended", p.index, before.Holder)
	case after.Epoch <= before.Epoch:
		s.fail("p%d joins as incarnation %d after %d", p.index, after.Epoch, before.Epoch)
	case after.Epoch > 1:
		s.reached |= Rejoined
	}
}

// checkRevoked fails if a process leads by a heartbeat that is revoked, unless the store has lost writes.
func (s *sim) checkRevoked(reg *register, before *driver.Record) {
	o := s.owner(before.Holder)
	if o == nil || o.proc.run != o.run || s.now < s.store.lostAt+2*s.cfg.LeaseDuration {
		return
	}

	for _, i := range o.proc.places() {
		if t := o.proc.term(i); !t.own && o.proc.leads(i) && t.incarnation == before.Holder.Incarnation {
			s.fail("p%d leads %s by a heartbeat that was revoked", o.proc.index, s.names[i])
		}
	}
}

// checkWrite checks a write to the record of an election.
func (s *sim) checkWrite(q *request, before *driver.Record) {
	p := q.proc
	reg := q.reg
	after := &reg.rec
	sameTerm := after.Holder == before.Holder && after.Epoch == before.Epoch && !before.Vacant()
	switch {
	case after.Epoch < before.Epoch:
		s.fail("rule 4: %s falls from epoch %d to %d", reg.name, before.Epoch, after.Epoch)
	case after.Epoch > before.Epoch:
		s.checkGrant(q, before)
	case after.Vacant() && !before.Vacant():
		if !s.made(before.Holder, p, q.run) {
			s.fail("rule 4: p%d releases %s, which %s holds", p.index, reg.name, before.Holder)
		}

		if after.Paused != before.Paused {
			s.fail("rule 4: p%d loses the pause of %s with a release", p.index, reg.name)
		}

		reg.vacatedAt = s.now
	case after.Holder != before.Holder:
		s.fail("p%d takes %s without a new epoch", p.index, reg.name)
	}

	if bytes.Equal(after.Data, before.Data) {
		return
	}

	if !sameTerm || !s.made(after.Holder, p, q.run) || !bytes.HasPrefix(after.Data, checkpointOf(after)) {
		s.fail("p%d writes the checkpoint %q into %s, which %s holds in epoch %d", p.index, after.Data, reg.name,
			after.Holder, after.Epoch)
	}

	s.stored = append(s.stored, string(after.Data))
}

// checkGrant checks a claim when it is applied.
func (s *sim) checkGrant(q *request, before *driver.Record) {
	p := q.proc
	reg := q.reg
	after := &reg.rec
	if after.Vacant() {
		s.fail("p%d raises the epoch of %s and does not hold it", p.index, reg.name)
	}

	if after.Epoch <= q.known {
		s.fail("rule 5: p%d claims epoch %d of %s, but was shown %d", p.index, after.Epoch, reg.name, q.known)
	}

	if after.Epoch <= reg.granted && s.store.lostAt < 0 {
		s.fail("epoch %d of %s is granted after %d", after.Epoch, reg.name, reg.granted)
	}

	reg.granted = max(reg.granted, after.Epoch)
	reg.unclaimed = *before
	reg.claims = append(reg.claims, claimed{after.Epoch, after.Holder})
	if before.Paused {
		s.fail("p%d claims %s, which is paused", p.index, reg.name)
	}

	s.checkReservation(q, before)

	if before.Vacant() {
		return
	}

	if (before.Via == "") != (after.Via == "") {
		s.reached |= TookOverMixed
	}

	if before.Via == "" {
		return
	}

	via := s.store.register(before.Via)
	if via.rec.Holder == before.Holder && q.firm && via.lostAt < q.at {
		s.fail("rule 6: p%d claims %s from %s, which lives", p.index, reg.name, before.Holder)
	}
}

// knowsHolder reports whether the store has not lost anything of the heartbeat of an election's holder since a process
// was last shown it. A holder that the process has seen to have ended is dead, whatever the store shows later.
func (p *proc) knowsHolder(reg *register) bool {
	if reg.member {
		return false
	}

	v := p.view(reg)
	m := p.find(v.via)
	return m != nil && m.at > m.reg.lostAt && v.endSeen != v.holder
}

// checkReservation checks that an election which is reserved for somebody goes to nobody else for a heartbeat interval.
func (s *sim) checkReservation(q *request, before *driver.Record) {
	next := before.Next
	if !before.Vacant() || next == "" || next == "*" {
		return
	}

	p := q.proc
	if next == p.cfg.ID {
		s.reached |= HandedOver
		return
	}

	hold := p.cfg.HeartbeatInterval - p.cfg.HeartbeatInterval/500
	if held := s.now - q.reg.vacatedAt; held < hold {
		s.fail("p%d claims %s, which was reserved for %s %v ago", p.index, q.reg.name, next, held)
	}
}
