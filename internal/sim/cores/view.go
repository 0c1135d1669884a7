package cores

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// view is what a run of a process was shown of one register, by answers. The simulation keeps it
// beside the core, to check what the core does by it. Times are those of the process.
type view struct {
	reg     *register
	highest uint64        // the highest epoch of all answers, also of late ones
	seen    bool          // anything was shown
	at      time.Duration // when the last request was sent whose answer came in time, by true time

	rev      string
	holder   driver.Identity
	epoch    uint64
	nonce    uint64
	edits    uint64
	duration time.Duration
	via      string

	order   uint64    // the number of the newest request that showed it
	moved   bool      // a write has shown that the store no longer has it
	movedBy uint64    // the last request by then
	since   core.Time // when this heartbeat was first received
	began   core.Time // when the newest read of it was sent

	direct direct // the same by answers that came in time alone, and in that order

	lateNonce uint64    // of a heartbeat that the answer to an older request has shown
	lateAt    core.Time // when that was

	excused    bool            // it may have been removed, for all that its process knows
	heldAt     core.Time       // when the last request was sent that showed it held
	shownEpoch uint64          // of the last answer that came in time
	covered    uint64          // the epochs up to this one are those of a register that was, or may have been, removed
	fell       bool            // it shows less than was shown before
	fellAt     core.Time       // since then
	endSeen    driver.Identity // the holder whose heartbeat register was seen to show that it has ended
	forgotten  driver.Identity
	forgotAt   core.Time // when the heartbeat register of the holder was first seen to have forgotten it
}

// view returns what a process was shown of a register.
func (p *proc) view(reg *register) *view {
	for i := range p.views {
		if p.views[i].reg == reg {
			return &p.views[i]
		}
	}

	p.views = append(p.views, view{reg: reg, at: never})
	return &p.views[len(p.views)-1]
}

// shown notes what an answer shows. It is awaited if it comes in time.
func (p *proc) shown(q *request, awaited bool) {
	order := q.send.ID >> 32
	switch {
	case q.outcome == core.Conflict && awaited:
		p.view(q.reg).passed(q.send.Record.Rev, p.lastSent)
	case q.outcome != core.Done && q.outcome != core.NotFound:
	case q.send.Verb == core.Named: // it shows no record
	case q.send.Verb == core.Remove:
		p.removed(q, awaited)
	case q.send.Verb == core.List || q.send.Verb == core.Skim:
		for i := range q.list {
			p.see(p.sim.store.register(q.list[i].Name), &q.list[i], order, q.sent)
		}
	default:
		v := p.view(q.reg)
		if q.send.Verb == core.Swap && awaited {
			v.passed(q.send.Record.Rev, p.lastSent)
		}

		v.highest = max(v.highest, q.rec.Epoch)
		if awaited {
			v.at = max(v.at, q.at)
			if !q.reg.removed { // which is no loss
				v.falls(q.rec.Epoch, p.clock())
			}

			v.excused = p.mayBeRemoved(v, q)
			if v.excused { // so it may also be made anew
				v.covered = v.highest
			}

			if !q.rec.Vacant() {
				v.heldAt = q.sent
			}
		}

		p.see(q.reg, &q.rec, order, q.sent)
		if awaited {
			v.direct.see(&q.rec, q.sent, p.clock())
		}

		if q.send.Verb == core.Get && awaited && len(p.unknown) > 0 {
			p.settled(q.rec.Nonce)
		}
		if q.reg.floor && awaited {
			p.covers(q.rec.Epoch)
		}
	}
}

// covers notes the epoch floor that a process was shown. The register of an election below it may have been removed and
// made anew, unless the process has seen it held a short time ago.
func (p *proc) covers(floor uint64) {
	for i := range p.views {
		v := &p.views[i]
		if v.highest <= floor && p.restedSince(v.heldAt) {
			v.covered = max(v.covered, v.highest)
		}
	}
}

// restedSince reports whether a register may have been removed that was last seen held at a time.
func (p *proc) restedSince(held core.Time) bool {
	return p.cfg.Rest > 0 && p.clock() >= held.Add(p.cfg.Rest-p.cfg.Rest/10)
}

// removed notes that a process has removed a register. If it is made anew, it begins below the epoch of the record that
// was removed, and that is no loss. Whatever went beyond that epoch still counts.
func (p *proc) removed(q *request, awaited bool) {
	v := p.view(q.reg)
	if awaited {
		v.passed(q.send.Record.Rev, p.lastSent)
		v.at = max(v.at, q.at)
		v.covered = max(v.covered, q.send.Record.Epoch)
		v.direct.see(&q.rec, q.sent, p.clock())
	}

	p.see(q.reg, &q.rec, q.send.ID>>32, q.sent)
}

// direct is what the answers to reads and writes have shown that came in time. What lists and late answers show beside
// that a core may take for news, or not.
type direct struct {
	rev    string
	holder driver.Identity
	nonce  uint64
	moved  bool // a write has shown that the store no longer has it
	since  core.Time
	began  core.Time
}

func (d *direct) see(r *driver.Record, sent, now core.Time) {
	if r.Holder != d.holder || r.Nonce != d.nonce || d.moved && r.Rev == d.rev {
		d.since = now
	}

	d.moved = false
	d.rev = r.Rev
	d.holder = r.Holder
	d.nonce = r.Nonce
	d.began = sent
}

// passed notes that the store no longer has a revision, as was known after the last request that was sent. Should it
// come back, it is watched anew.
func (v *view) passed(rev string, last uint64) {
	if v.direct.rev == rev {
		v.direct.moved = true
	}

	if v.seen && v.rev == rev {
		v.moved = true
		v.movedBy = last
	}
}

// mayBeRemoved reports whether a process cannot tell the loss of a register from its removal: it has not seen it held
// for so long that both are possible.
func (p *proc) mayBeRemoved(v *view, q *request) bool {
	return q.outcome == core.NotFound && p.restedSince(v.heldAt)
}

// falls notes that an election shows a lower epoch than it did before.
func (v *view) falls(epoch uint64, now core.Time) {
	switch {
	case epoch >= v.highest || v.highest <= v.covered:
		v.fell = false
	case !v.fell || epoch < v.shownEpoch:
		v.fell = true
		v.fellAt = now
	}

	v.shownEpoch = epoch
}

// see notes what a request has shown, whether or not it came in time. One that was sent before the newest one may be
// older, and says nothing.
func (p *proc) see(reg *register, r *driver.Record, order uint64, sent core.Time) {
	v := p.view(reg)
	now := p.clock()
	if v.seen && order < v.order {
		if r.Nonce != v.lateNonce {
			v.lateNonce = r.Nonce
			v.lateAt = now
		}

		return
	}

	if v.moved && r.Rev == v.rev && order <= v.movedBy {
		return
	}

	same := v.seen && r.Rev == v.rev && !v.moved
	edited := v.seen && r.Holder == v.holder && r.Nonce == v.nonce && r.Edits != v.edits
	if !same && !edited {
		v.since = now
		if r.Nonce == v.lateNonce && !v.moved {
			v.since = v.lateAt // it was shown before, by the answer to an older request
		}
	}

	v.seen = true
	v.moved = false
	v.order = order
	v.rev = r.Rev
	v.holder = r.Holder
	v.epoch = r.Epoch
	v.nonce = r.Nonce
	v.edits = r.Edits
	v.duration = r.Duration
	v.via = r.Via
	v.began = sent
	if !same {
		p.noteForgotten(v, now)
	}
}

// noteForgotten notes which elections name an incarnation that its heartbeat register has forgotten.
func (p *proc) noteForgotten(changed *view, now core.Time) {
	for i := range p.views {
		v := &p.views[i]
		if v.via == "" || v.holder == v.forgotten || v != changed && v.via != changed.reg.name {
			continue
		}

		m := changed
		if v == changed {
			m = p.find(v.via)
		}

		if m != nil && m.seen && m.ended(v.holder) {
			v.endSeen = v.holder // which is final, whatever the store loses later
		}

		if m != nil && m.seen && !m.reg.removed && v.endSeen != v.holder && m.forgets(v.holder) {
			v.forgotten = v.holder
			v.forgotAt = now
		}
	}
}

// find returns the view of a register, or nil.
func (p *proc) find(name string) *view {
	for i := range p.views {
		if p.views[i].reg.name == name {
			return &p.views[i]
		}
	}

	return nil
}

// forgets reports whether a heartbeat register does not know that an incarnation has joined: it counts fewer, or shows
// another one with the same number.
func (v *view) forgets(who driver.Identity) bool {
	text, _, _ := strings.Cut(who.Incarnation, ".")
	count, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return false
	}

	return v.epoch < count || v.epoch == count && v.holder != who && v.holder != driver.Identity{}
}

// ended reports whether a heartbeat register shows that an incarnation has joined and ended.
func (v *view) ended(who driver.Identity) bool {
	text, _, _ := strings.Cut(who.Incarnation, ".")
	count, err := strconv.ParseUint(text, 10, 64)
	return err == nil && (v.epoch > count || v.epoch == count && v.holder == driver.Identity{})
}

// settled notes that a read has shown a write whose answer was lost.
func (p *proc) settled(nonce uint64) {
	if i := slices.Index(p.unknown, nonce); i >= 0 {
		p.unknown = slices.Delete(p.unknown, i, i+1)
		p.sim.reached |= SettledUnknown
	}
}

// made reports whether this run of a process has made an incarnation.
func (s *sim) made(who driver.Identity, p *proc, run int) bool {
	o := s.owner(who)
	return o != nil && o.proc == p && o.run == run
}

// owner returns who has made an incarnation.
func (s *sim) owner(who driver.Identity) *owner {
	i := strings.LastIndexByte(who.Incarnation, 'i')
	if i < 0 {
		return nil
	}

	n, err := strconv.ParseUint(who.Incarnation[i+1:], 10, 64)
	if err != nil {
		return nil
	}

	k := sort.Search(len(s.owners), func(k int) bool { return s.owners[k].number >= n })
	if k == len(s.owners) || s.owners[k].number != n {
		return nil
	}

	return &s.owners[k]
}
