package core

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// Canon maps names that are drawn at random, or only ever compared, to small numbers, so that states which behave
// alike are encoded alike. A name that nothing outside this core can ever show it again may be mapped to 0.
type Canon interface {
	Rev(rev string) uint64
	Nonce(nonce uint64) uint64
	// Incarnation returns 0 for a name that it has not met before, unless it is to remember it.
	Incarnation(name string, remember bool) uint64
	Epoch(register string, epoch uint64) uint64
}

// Encode appends what decides the core's future at now. Times that have passed count as one where only that matters.
func (c *Core) Encode(b []byte, now Time, canon Canon) []byte {
	x := &encoder{b: b, now: now, canon: canon}
	x.horizon = 2 * (c.cfg.LeaseDuration + c.cfg.TakeoverDelay + c.cfg.ElectionIntervalMax)
	x.flags(c.started, c.closing, c.closed, c.healthy)
	if c.closed {
		return x.b
	}

	x.ahead(c.startAt)
	x.ahead(c.backoff)
	x.ahead(c.pollAt)
	x.text(string(c.info))
	if c.closing {
		x.ahead(c.tidyEnd)
	}

	x.number(len(c.queue) - c.head)
	x.number(len(c.elections.all) - c.all)

	x.member(c)
	x.ranked(c)
	for _, e := range c.elections.all {
		x.flags(e != nil)
		if e != nil {
			x.election(c, e)
		}
	}

	x.known(c)
	for _, s := range c.sights.all {
		x.flags(s != nil)
		if s != nil {
			x.sight(c, s)
		}
	}

	x.retirement(c)
	x.number(len(c.held))
	for _, i := range c.held {
		x.number(int(i))
	}

	if len(c.held) > 0 {
		x.ahead(c.sweepAt)
		x.age(c.sweptAt)
		x.number(c.sweepFrom)
		x.number(c.sweepLeft)
	}

	return x.b
}

type encoder struct {
	b       []byte
	now     Time
	horizon time.Duration
	canon   Canon
}

func (x *encoder) flags(all ...bool) {
	var bits byte
	for i, f := range all {
		if f {
			bits |= 1 << i
		}
	}

	x.b = append(x.b, bits)
}

func (x *encoder) number(n int)      { x.b = binary.AppendVarint(x.b, int64(n)) }
func (x *encoder) unsigned(n uint64) { x.b = binary.AppendUvarint(x.b, n) }
func (x *encoder) text(s string) {
	x.number(len(s))
	x.b = append(x.b, s...)
}

// ahead encodes a moment of which only matters how far it is ahead.
func (x *encoder) ahead(t Time) {
	if t == Never {
		x.number(-1)
		return
	}

	x.number(int(max(0, t-x.now)))
}

// age encodes a moment of which only matters how long ago it was, up to the horizon.
func (x *encoder) age(t Time) { x.within(t, x.horizon) }

// within encodes a moment of which only matters how long ago it was, up to d.
func (x *encoder) within(t Time, d time.Duration) { x.number(int(min(x.now-t, Time(d)))) }

func (x *encoder) identity(who driver.Identity, remember bool) {
	x.text(who.ID)
	if who.ID != "" {
		x.unsigned(x.canon.Incarnation(who.Incarnation, remember))
	}
}

// EncodeRecord appends what decides anything about a record.
func EncodeRecord(b []byte, r *driver.Record, canon Canon) []byte {
	x := &encoder{b: b, canon: canon}
	x.record(r)
	return x.b
}

func (x *encoder) record(r *driver.Record) {
	x.unsigned(x.canon.Rev(r.Rev))
	x.identity(r.Holder, true)
	x.unsigned(x.canon.Epoch(r.Name, r.Epoch))
	x.unsigned(x.canon.Nonce(r.Nonce))
	x.unsigned(r.Edits)
	x.number(int(r.Duration))
	x.text(r.Via)
	x.text(r.Next)
	x.flags(r.Paused, r.Epoch == 0)
	x.text(string(r.Data))
	if n := len(r.Past); n > 0 {
		x.unsigned(x.canon.Epoch(r.Name, r.Past[n-1].Epoch))
		x.text(r.Past[n-1].Holder)
	}
}

func (x *encoder) call(k *call) {
	x.number(int(k.kind))
	if k.id == 0 {
		return
	}

	x.ahead(k.until)
	x.flags(k.old)
	if k.kind == readCall {
		x.flags(k.witness)
		x.age(k.sent)
	}
}

func (x *encoder) entity(e *entity) {
	x.flags(e.queued, e.awaits, e.lists)
	x.ahead(e.due)
	x.call(&e.call)
}

func (x *encoder) watch(w *watch, delay time.Duration, k *call) {
	x.flags(w.seen, w.expired(delay), w.gone, w.other, w.moved != 0, w.moved != 0 && k.order() <= w.moved)
	if !w.seen {
		return
	}

	x.record(&w.rec)
	if !w.rec.Vacant() && !w.expired(delay) {
		x.within(w.since, w.rec.Duration+delay)
		x.ahead(w.readAt(delay))
	}
}

func (x *encoder) retry(c *Core, r *retry) {
	x.number(min(r.failed, 4))
	x.flags(r.failed > 0 && c.answered >= r.since, r.reported)
	x.ahead(r.at)
}

func (x *encoder) beat(b *beat) {
	x.flags(b.ended, b.check, b.conflict, b.stopped)
	x.identity(b.who, true)
	x.number(b.held)
	if b.ended {
		return
	}

	x.ahead(b.deadline)
	x.ahead(b.due)
	x.number(b.failed)
	if b.check && b.conflict {
		x.unsigned(x.canon.Rev(b.compare))
	}

	x.number(int(b.trust))
	last := false // whether the last attempt may still show: only then can a read show the newest
	for i, t := range b.tries {
		n := x.canon.Nonce(t.nonce)
		last = n != 0
		if last {
			x.unsigned(n)
		}

		if last && i > 0 { // that of the first is in the deadline
			x.within(t.sent, b.trust)
		}
	}

	x.flags(last)
}

func (x *encoder) vacating(v *vacating) {
	x.flags(v.on, v.check)
	if v.on {
		x.identity(v.who, true)
		x.text(v.next)
		x.text(v.reason)
		x.number(v.tries)
		x.ahead(v.until)
	}
}

func (x *encoder) member(c *Core) {
	m := &c.member
	x.entity(&m.entity)
	x.number(int(m.phase))
	x.record(&m.rec)
	x.beat(&m.beat)
	if m.phase == memberWaiting {
		x.watch(&m.other, 0, &m.call)
	}

	x.number(min(m.failed, len(c.cfg.RenewBackoff))) // more failures wait no longer
	x.ahead(m.retry)
	x.vacating(&m.vac)
	x.number(len(m.fresh))
	x.number(len(m.claims))
	x.unsigned(x.canon.Epoch(m.rec.Name, c.runs))

	var endings []uint64
	for _, who := range c.endings {
		if n := x.canon.Incarnation(who.Incarnation, false); n != 0 {
			endings = append(endings, n)
		}
	}

	slices.Sort(endings)
	x.number(len(endings))
	for _, n := range endings {
		x.unsigned(n)
	}
}

func (x *encoder) sight(c *Core, s *sight) {
	x.entity(&s.entity)
	x.text(s.name)
	x.watch(&s.watch, c.cfg.TakeoverDelay, &s.call)
	x.retry(c, &s.retry)
	if c.cfg.Watchers > 0 {
		x.flags(s.spare, s.idles, s.anew, s.watch.renewed)
		x.ahead(s.idleUntil)
		x.ahead(s.closeUntil)
		x.ahead(s.eagerUntil)
	}

	x.flags(s.proof != 0, s.again, s.fresh != c.refresh, s.revoke, s.watch.renewed && c.rank.kind == rankLexicographic)
	x.number(s.cleared)
	x.number(len(s.deps))
	for _, i := range s.deps {
		x.number(int(i))
	}

	x.number(len(s.waiting))
	x.number(len(s.pokes))
	for _, p := range s.pokes {
		x.identity(p.holder, true)
		x.ahead(p.until)
		x.flags(p.sent)
	}
}
