package explore

import (
	"encoding/binary"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// canon numbers revisions, nonces and incarnations by where they first appear. A revision or a nonce that neither
// the store nor a message can show any more is 0.
type canon struct {
	w      *world
	revs   []string
	nonces []uint64
	names  []string
	buf    []byte
}

// span is up to which distance epochs differ, below and above that of the register.
const span = 4

func (c *canon) Rev(rev string) uint64 {
	for i, r := range c.revs {
		if r == rev {
			return uint64(i + 1)
		}
	}

	return 0
}

func (c *canon) Nonce(nonce uint64) uint64 {
	for i, n := range c.nonces {
		if n == nonce {
			return uint64(i + 1)
		}
	}

	return 0
}

func (c *canon) Incarnation(name string, remember bool) uint64 {
	for i, n := range c.names {
		if n == name {
			return uint64(i + 1)
		}
	}

	if !remember {
		return 0
	}

	c.names = append(c.names, name)
	return uint64(len(c.names))
}

func (c *canon) Epoch(register string, epoch uint64) uint64 {
	i := c.w.store.index(register)
	if i < 0 || c.w.setup.Config.Rest > 0 { // epochs of different registers are compared
		return epoch
	}

	d := int64(epoch) - int64(c.w.store.records[i].Epoch)
	return uint64(min(max(d, -span), span) + span)
}

// note makes the names of a record known.
func (c *canon) note(r *driver.Record) {
	if c.Rev(r.Rev) == 0 {
		c.revs = append(c.revs, r.Rev)
	}

	if c.Nonce(r.Nonce) == 0 {
		c.nonces = append(c.nonces, r.Nonce)
	}
}

// encode returns what tells a world from others that behave differently. The slice is valid until the next call.
func (c *canon) encode(w *world) []byte {
	c.w = w
	c.revs = append(c.revs[:0], "")
	c.nonces = append(c.nonces[:0], 0)
	c.names = c.names[:0]
	for i := range w.store.records {
		c.note(&w.store.records[i])
	}

	for i := range w.store.undo {
		c.note(&w.store.undo[i].before)
	}

	for i := range w.msgs {
		m := &w.msgs[i]
		if !isRead(m.verb) && !m.applied && c.Nonce(m.record.Nonce) == 0 {
			c.nonces = append(c.nonces, m.record.Nonce)
		}

		if m.applied {
			c.note(&m.got)
		}

		for k := range m.list {
			c.note(&m.list[k])
		}
	}

	for i := range w.procs {
		for k := range w.procs[i].notices {
			c.note(&w.procs[i].notices[k])
		}

		if w.setup.Rollbacks > 0 {
			for _, nonce := range w.procs[i].rests {
				if c.Nonce(nonce) == 0 {
					c.nonces = append(c.nonces, nonce)
				}
			}
		}
	}

	b := c.buf[:0]
	for i := range w.store.records {
		b = core.EncodeRecord(b, &w.store.records[i], c)
	}

	for i := range w.store.undo {
		b = append(b, byte(w.store.undo[i].register))
		b = core.EncodeRecord(b, &w.store.undo[i].before, c)
	}

	b = append(b, byte(len(w.store.undo)))
	for i := range w.procs {
		b = c.proc(b, w, &w.procs[i])
	}

	for i := range w.msgs {
		b = c.message(b, &w.msgs[i])
	}

	l := w.left
	for _, n := range [...]int{
		l.crashes, l.losses, l.rollbacks, l.stepDowns, l.handOffs, l.saves, l.closes, l.freezes,
		l.withdraws, l.sleeps, l.retires, l.retiresOf, l.releases, l.pauses,
	} {
		b = append(b, byte(n))
	}

	for k, g := range w.granted {
		b = binary.AppendUvarint(b, c.Epoch(election(k), g))
		b = binary.AppendUvarint(b, c.Epoch(election(k), w.begun[k]))
	}

	b = append(b, bit(w.outran))
	b = c.companions(b, w)
	c.buf = b
	return b
}

func (c *canon) message(b []byte, m *message) []byte {
	b = append(b, byte(m.proc), byte(m.verb), bit(m.late), bit(m.applied), byte(m.outcome))
	b = binary.AppendUvarint(b, m.id&(1<<32-1))
	switch {
	case m.applied && (m.verb == core.List || m.verb == core.Skim):
		for i := range m.list {
			b = core.EncodeRecord(b, &m.list[i], c)
		}

		return append(b, byte(len(m.list)), bit(m.partial))
	case m.applied && m.outcome == core.Done:
		return core.EncodeRecord(b, &m.got, c)
	case m.applied:
		return b
	case !isRead(m.verb):
		return core.EncodeRecord(b, &m.record, c)
	}

	return append(b, byte(c.w.store.index(m.record.Name)))
}

func (c *canon) proc(b []byte, w *world, p *proc) []byte {
	b = append(b, bit(p.core != nil), bit(p.gone))
	if p.core == nil || p.gone {
		return b
	}

	b = append(b, bit(p.asleep), bit(p.asking))
	b = c.lifelines(b, p.lines)
	for _, idle := range p.idle {
		b = append(b, bit(idle))
	}

	b = p.core.Encode(b, w.now, c)
	for k, t := range p.terms {
		b = append(b, bit(t != nil))
		if t == nil {
			continue
		}

		b = binary.AppendUvarint(b, c.Epoch(election(k), t.epoch))
		b = binary.AppendUvarint(b, c.Incarnation(t.incarnation, true))
		b = binary.AppendUvarint(b, uint64(max(0, p.deadlines[t.register]-w.now)))
	}

	for _, s := range p.stopping {
		b = append(b, s.election...)
		b = binary.AppendUvarint(b, c.Epoch(s.election, s.epoch))
		b = binary.AppendUvarint(b, uint64(max(0, s.until-w.now)))
	}

	for i := range p.notices {
		b = core.EncodeRecord(b, &p.notices[i], c)
	}

	if w.setup.Rollbacks > 0 {
		for k, s := range p.shown {
			for _, one := range s {
				b = binary.AppendUvarint(b, c.Epoch(w.store.names[k], one.epoch))
				b = binary.AppendUvarint(b, c.Incarnation(one.who, false))
				b = binary.AppendUvarint(b, c.Nonce(one.nonce))
			}

			b = binary.AppendUvarint(b, c.Nonce(p.rests[k]))
		}
	}

	return b
}

func bit(set bool) byte {
	if set {
		return 1
	}

	return 0
}

// companions encodes the tasks and the fence of the worker, and the reapers of dead processes.
func (c *canon) companions(b []byte, w *world) []byte {
	if w.setup.Tasks > 0 {
		for k, t := range w.fences {
			b = binary.AppendUvarint(b, c.Epoch(election(k), t.Epoch))
			b = binary.AppendUvarint(b, c.Incarnation(t.Term, true))
		}

		for _, t := range w.tasks {
			b = append(b, byte(t.proc), byte(t.election))
			b = binary.AppendUvarint(b, c.Epoch(election(t.election), t.token.Epoch))
			b = binary.AppendUvarint(b, c.Incarnation(t.token.Term, true))
		}
	}

	return c.lifelines(b, w.dead)
}

func (c *canon) lifelines(b []byte, lines []lifeline) []byte {
	b = append(b, byte(len(lines)))
	for _, l := range lines {
		b = append(b, byte(c.w.store.index(l.register)), bit(l.holds), bit(l.stopped))
		b = binary.AppendUvarint(b, c.Incarnation(l.holder.Incarnation, true))
		b = binary.AppendUvarint(b, uint64(max(0, l.killAt-c.w.now)))
	}

	return b
}
