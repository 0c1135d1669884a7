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

// view is what a run of a process was shown of one register, by answers that its core took in. The simulation keeps it
// beside the core, to check what the core does by it. Times are those of the process.
type view struct {
	reg     *register
	highest uint64        // the highest epoch of all answers, also of late ones
	seen    bool          // anything was shown
	at      time.Duration // when, by true time

	rev      string
	holder   driver.Identity
	epoch    uint64
	nonce    uint64
	edits    uint64
	duration time.Duration
	via      string

	since core.Time // when this heartbeat was first received
	began core.Time // when the newest read of it was sent

	fell      bool      // it shows less than was shown before
	fellAt    core.Time // since then
	forgotten driver.Identity
	forgotAt  core.Time // when the heartbeat register of the holder was first seen to have forgotten it
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

// shown notes what an answer shows. It is awaited if the core takes it in.
func (p *proc) shown(q *request, awaited bool) {
	if q.outcome != core.Done && q.outcome != core.NotFound {
		return
	}
	v := p.view(q.reg)
	v.highest = max(v.highest, q.rec.Epoch)
	if !awaited {
		return
	}

	now := p.clock()
	r := &q.rec
	same := v.seen && r.Rev == v.rev
	edited := v.seen && r.Holder == v.holder && r.Nonce == v.nonce && r.Edits > v.edits
	if !same && !edited {
		v.since = now
	}
	switch {
	case r.Epoch >= v.highest:
		v.fell = false
	case !v.fell || r.Epoch < v.epoch:
		v.fell = true
		v.fellAt = now
	}
	v.seen = true
	v.at = p.sim.now
	v.rev = r.Rev
	v.holder = r.Holder
	v.epoch = r.Epoch
	v.nonce = r.Nonce
	v.edits = r.Edits
	v.duration = r.Duration
	v.via = r.Via
	v.began = q.sent

	p.noteForgotten(v, now)
	if q.send.Verb == core.Get && len(p.unknown) > 0 {
		p.settled(r.Nonce)
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
		if m != nil && m.seen && m.forgets(v.holder) {
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
