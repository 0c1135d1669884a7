package core

import (
	"slices"

	"github.com/regentd/regent/driver"
)

// This file is the claim without a read. A member that has released an election knows its record, because it has
// written it. If the member campaigns again soon, it claims on that record: a term costs a claim and a release, and no
// read. That the record still stands is proved by the swap, on its revision (rule 4), as it is for a claim on a
// notification. If the record has moved, the claim is a conflict, and the register is read.

// known is the vacant record of an election that this member has released, and is not interested in any more.
type known struct {
	rec driver.Record
	at  Time // when the election was dropped
}

const (
	maxKnown     = 64       // how many such records are kept
	maxKnownData = 4 * 1024 // the largest checkpoint that such a record may have
)

// keepKnown keeps the record of an election that is dropped, if this member has just released it and nothing stands in
// the way of a claim.
func (c *Core) keepKnown(e *election) {
	r := &e.rec
	switch {
	case !e.released || e.stale || !r.Vacant() || r.Epoch != c.memory[e.name]:
		return
	case r.Paused || r.Next != "" || c.now < max(e.barred, e.holdBack) || len(r.Data) > maxKnownData:
		return
	}

	kept := make([]known, 0, min(len(c.known)+1, maxKnown))
	for _, k := range c.known[max(0, len(c.known)-maxKnown+1):] {
		if k.rec.Name != e.name && c.lately(&k) {
			kept = append(kept, k)
		}
	}

	c.known = append(kept, known{*r, c.now})
}

// lately reports whether a record was known so short a time ago that a candidate would not read it again by now.
func (c *Core) lately(k *known) bool { return c.now < k.at.Add(c.cfg.ElectionInterval) }

// forgetKnown forgets the record of a release: an answer has shown the register since.
func (c *Core) forgetKnown(name string) (known, bool) {
	i := slices.IndexFunc(c.known, func(k known) bool { return k.rec.Name == name })
	if i < 0 {
		return known{}, false
	}

	k := c.known[i]
	c.known = slices.Concat(c.known[:i], c.known[i+1:])
	return k, true
}

// claimKnown claims on the record that this member knows from its last release, and reports whether it did. Each record
// is used once. Where anything may stand in the way of a claim, the register is read instead: it was forgotten by the
// store or replaced (rule 5), the floor is too old (rule 13), or others may have to come first.
func (c *Core) claimKnown(e *election) bool {
	if e.seen || !e.wanted {
		return false
	}

	k, ok := c.forgetKnown(e.name)
	if !ok {
		return false
	}

	r := &k.rec
	switch {
	case !c.lately(&k) || r.Epoch != c.memory[e.name]:
		return false
	case c.rank.kind != rankFirst || !c.mayLead() || !c.floorFresh():
		return false
	case c.now < max(c.notBefore(e, r), e.hold, c.backoff, c.readFrom):
		return false
	}

	c.decided(4, e.name, "this member has released this very record: claim it without a read")
	e.pollAt = c.pollTime(c.pollInterval(e))
	e.fresh = c.refresh
	c.bid(e, r)
	e.stale = true // unless the claim is applied
	return true
}
