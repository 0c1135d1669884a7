package explore

import (
	"slices"

	"github.com/regentd/regent/driver"
)

// shown is what a process was shown of a register last, newest first. It is kept only where the store loses writes.
type shown [3]showing

type showing struct {
	epoch uint64
	who   string
	nonce uint64
}

// see notes that a process was shown a record.
func (w *world) see(i int, r *driver.Record) {
	if w.setup.Rollbacks == 0 || r.Vacant() {
		return
	}

	p := &w.procs[i]
	k := w.store.index(r.Name)
	if r.Holder.ID == w.setup.IDs[i] {
		p.rests[k] = r.Nonce
	}

	s := &p.shown[k]
	if s[0].nonce != r.Nonce {
		copy(s[1:], s[:])
		s[0].epoch = r.Epoch
		s[0].who = r.Holder.Incarnation
		s[0].nonce = r.Nonce
	}
}

// term reports whether the process was shown a term, and attempt whether it was shown a heartbeat.
func (s *shown) term(t *term) bool {
	return slices.ContainsFunc(s[:], func(k showing) bool { return k.epoch == t.epoch && k.who == t.incarnation })
}

func (s *shown) attempt(nonce uint64) bool {
	return s[0].nonce == nonce || s[1].nonce == nonce || s[2].nonce == nonce
}

// unaware reports whether neither of two leaders was shown what the other relies on.
func (w *world) unaware(i, j, k int) bool { return !w.aware(i, j, k) && !w.aware(j, i, k) }

// aware reports whether one process was shown the term of another one, and the heartbeat that this one relies on.
func (w *world) aware(i, j, k int) bool {
	t := w.procs[j].terms[k]
	register := w.store.index(t.register)
	return w.procs[i].shown[k].term(t) && w.procs[i].shown[register].attempt(w.procs[j].rests[register])
}
