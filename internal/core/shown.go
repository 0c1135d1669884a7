package core

import (
	"strings"

	"github.com/regentd/regent/driver"
)

// This file is what an answer shows to others than the entity that asked. The member, elections and sights may ask for
// one register, and answers may come too late to be waited for. Whatever any of them shows counts: for how long a
// heartbeat has been watched (rule 2), and for the epochs of an election (rule 5).

// passed takes in that the register of an entity no longer has a revision: a swap of it was applied, or met another
// one.
func (c *Core) passed(r ref, rev string) {
	switch r.kind() {
	case memberKind:
		c.passedBeat(c.member.rec.Name, rev)
	case electionKind:
		c.elections.all[r.index()].own.passed(rev, c.seq)
	case sightKind:
		c.passedBeat(c.sights.all[r.index()].name, rev)
	}
}

func (c *Core) passedBeat(name, rev string) {
	if i, ok := c.sighted[name]; ok {
		c.sights.all[i].watch.passed(rev, c.seq)
	}

	if name == c.member.rec.Name {
		c.member.other.passed(rev, c.seq)
	}
}

// shareOwn shows what the member was shown of its own register to those who watch it as that of a leader.
func (c *Core) shareOwn(r *driver.Record, done call) {
	if i, ok := c.sighted[r.Name]; ok {
		c.seen(c.sights.all[i], r, done)
		c.enqueue(c.sights.all[i].ref)
	}
}

// shareSight shows what a sight was shown to the member, if that waits for another process to leave the register.
func (c *Core) shareSight(r *driver.Record, done call) {
	if m := &c.member; r.Name == m.rec.Name && m.phase == memberWaiting {
		c.see(&m.other, r, done)
		c.enqueue(m.ref)
	}
}

// provedDead reports whether the process that wrote a heartbeat is proved dead.
func (c *Core) provedDead(rec *driver.Record) bool {
	i, ok := c.sighted[rec.Name]
	return ok && c.sights.all[i].watch.gone && c.sights.all[i].watch.rec.Rev == rec.Rev
}

// learn keeps the highest epoch of an election, wherever it was seen (rule 5), unless no term can follow it.
func (c *Core) learn(name string, epoch uint64) {
	if epoch > c.memory[name] && !exhausted(epoch) {
		c.memory[name] = epoch
		c.emit(Learned{name, epoch})
	}
}

// observe takes in an epoch that the store has not shown. One from nowhere must not use up the epochs of an
// election, so it is believed only if it is not far beyond what is known.
func (c *Core) observe(name string, epoch uint64) {
	if epoch < maxEpoch && epoch <= c.memory[name]+maxJump {
		c.overhear(name, epoch)
	}
}

// overhear takes in an epoch that came otherwise than by an answer that is waited for. Nothing is claimed on a record
// that is known to be old: it is read when there is a reason to act on it.
func (c *Core) overhear(name string, epoch uint64) {
	if epoch <= c.memory[name] || exhausted(epoch) {
		return
	}

	c.learn(name, epoch)
	i, ok := c.names[name]
	if !ok {
		return
	}

	e := c.elections.all[i]
	e.call.old = true
	e.stale = e.stale || e.seen && e.rec.Epoch < epoch
	if c.idling(e) { // nothing else would have it read soon
		c.enqueue(e.ref)
	}
}

// late takes in a record that an answer shows which is not waited for any more. When its request was sent is not known
// by now, so it proves only what it shows: an epoch, and that a heartbeat which had been watched was replaced.
func (c *Core) late(order uint64, r *driver.Record) {
	if strings.HasPrefix(r.Name, driver.MemberPrefix) {
		if i, ok := c.sighted[r.Name]; ok && c.sights.all[i].watch.replaced(r, order, c.seq) {
			c.enqueue(c.sights.all[i].ref)
		}

		if r.Name == c.member.rec.Name && c.member.other.replaced(r, order, c.seq) {
			c.enqueue(c.member.ref)
		}

		return
	}

	if r.Name == driver.FloorRegister {
		c.learnFloor(r.Epoch)
		return
	}

	c.forgetKnown(r.Name)
	c.overhear(r.Name, r.Epoch) // rule 5: the highest epoch counts, wherever it was seen
	i, ok := c.names[r.Name]
	if !ok {
		return
	}

	e := c.elections.all[i]
	e.own.replaced(r, order, c.seq)
	if r.Epoch > e.shown {
		e.shown = r.Epoch
		e.call.old = true
		e.stale = true
	}

	c.enqueue(e.ref)
}

// replaced takes in that a late answer shows another record than the one that is watched, and reports whether it does.
func (w *watch) replaced(r *driver.Record, order, last uint64) bool {
	if !w.seen || r.Rev == w.rec.Rev || order < w.order {
		return false
	}

	w.moved = last
	w.other = w.other || r.Holder != w.rec.Holder || r.Nonce != w.rec.Nonce
	return true
}

// showSight shows what was listed to whoever watches the register, unless the watcher has seen something newer. Where
// the watcher waits for an answer of its own, it takes in only that the heartbeat was replaced: should the one before
// come back, the store has gone back, and it is watched anew (rule 2).
func (c *Core) showSight(rec *driver.Record) {
	i, ok := c.sighted[rec.Name]
	if !ok {
		return
	}

	s := c.sights.all[i]
	listed := c.roster.came.order()
	switch {
	case s.proof == 0 || s.proof >= listed:
		return
	case s.call.id == 0:
		c.seen(s, rec, c.roster.came)
	default:
		s.watch.replaced(rec, listed, c.seq)
	}

	c.enqueue(s.ref)
}

// skimSight shows to whoever watches a register that its heartbeat was replaced. All else in the record may be old.
func (c *Core) skimSight(rec *driver.Record) {
	i, ok := c.sighted[rec.Name]
	if !ok {
		return
	}

	s := c.sights.all[i]
	listed := c.roster.came.order()
	if s.proof == 0 || s.proof >= listed || !s.watch.replaced(rec, listed, c.seq) {
		return
	}

	s.watch.other = true
	c.enqueue(s.ref)
}
