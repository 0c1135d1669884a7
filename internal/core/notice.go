package core

import (
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is rule 12: what a member does about notifications. Each of them only shortens a wait.

// notice takes in a notification (rule 12: it only shortens a wait, and proves nothing).
func (c *Core) notice(r driver.Record) {
	if r.Name == "" {
		c.refreshAt = min(c.refreshAt, max(c.now, c.refreshed.Add(c.refreshInterval())))
		c.sweepSoon()
		return
	}

	c.notified = true
	if strings.HasPrefix(r.Name, driver.MemberPrefix) {
		c.memberNotice(r.Name)
	}
	if i, ok := c.sighted[r.Name]; ok && strings.HasPrefix(r.Name, driver.MemberPrefix) {
		s := c.sights.all[i]
		s.again = true
		c.enqueue(s.ref)
		return
	}

	i, ok := c.names[r.Name]
	if !ok {
		return
	}

	e := c.elections.all[i]
	switch {
	case c.claimOnNotice(e, &r):
	case e.seen && r.Rev != "" && r.Rev == e.rec.Rev:
	case c.claimedByOther(e, &r):
	case e.term.state == noTerm:
		c.decided(12, e.name, "a notification proves nothing: read the register")
		e.stale = true
		e.call.old = true
		c.enqueue(e.ref)
	default: // one about this member's own claim is given time to pass
		c.decided(12, e.name, "a notification proves nothing: read the register")
		e.check = max(c.now, e.received.Add(echoWait), 1)
		c.enqueue(e.ref)
	}
}

// refreshInterval is the least time between two notices that anything may have changed, for a member with many
// elections. While they change hands, notifications are merged, and there is one such notice after another.
func (c *Core) refreshInterval() time.Duration {
	if c.live <= portion {
		return 0
	}

	return c.mergeTime()
}

// mergeTime is how long reads of a crowd are put off, so that they are sent together.
func (c *Core) mergeTime() time.Duration { return c.cfg.HeartbeatInterval / 8 }

// refreshAll has everything read that is not read within a short time anyway, if a notice has asked for that and its
// time has come.
func (c *Core) refreshAll() {
	if c.now < c.refreshAt {
		return
	}

	c.refreshAt = Never
	c.refreshed = c.now
	c.refresh++
	c.enqueueAll()
}

// claimOnNotice claims on the vacant record that a notification brought, without a read, and reports whether it
// did: if somebody else has released the election in the very term that is known to be the last. A notification
// proves nothing (rule 12): that the record stands is proved by the swap, on its revision.
func (c *Core) claimOnNotice(e *election, r *driver.Record) bool {
	switch {
	case r.Rev == "" || !r.Vacant() || r.Paused || r.Epoch != c.memory[e.name]:
		return false
	case !e.wanted || e.stale && e.call.id == 0 || e.call.old || e.call.write() || e.vac.on || !c.followed(e):
		return false
	case r.Next != "" && r.Next != anyone && r.Next != c.cfg.ID:
		return false
	case c.rank.kind != rankFirst: // others may have to come first
		return false
	case !c.mayLead() || !c.floorFresh() || exhausted(r.Epoch):
		return false
	case c.now < max(c.notBefore(e, r), e.hold, c.backoff):
		return false
	}

	c.decided(12, e.name, "the notification shows it vacant: claim that revision without a read")
	e.dropRead()
	c.bid(e, r)
	e.stale = true
	c.enqueue(e.ref)
	return true
}

// claimedByOther notes that a vacant election has changed: most likely somebody holds it now. Members of a fleet do
// not all read it at that moment, but each at its next poll. It reports false where the election has to be read at
// once: the record that the notification brought shows it vacant again, or names this member as the next.
func (c *Core) claimedByOther(e *election, r *driver.Record) bool {
	if r.Rev != "" && r.Vacant() || r.Next == c.cfg.ID {
		return false
	}

	if c.merges(e, r) {
		e.claimed = e.open
		if e.open {
			c.sharedAt = c.now
		}

		c.readMerged(e)
		c.enqueue(e.ref)
		return true
	}

	if !c.spreads() || e.term.state != noTerm || e.stale || !e.seen || !e.rec.Vacant() || e.rec.Paused {
		return false
	}

	e.claimed = true
	e.pollAt = min(e.pollAt, c.now.Add(c.untilPhase(c.now, c.cfg.ElectionInterval)))
	c.enqueue(e.ref)
	return true
}

// merges reports whether an election need not be read at once when a notification has come: it is one of many that
// another member holds or has held, somebody else holds it now, and another of them was read a short time ago.
func (c *Core) merges(e *election, r *driver.Record) bool {
	named := r.Rev != "" && r.Holder.ID != c.cfg.ID
	return named && c.now < e.pollAt && c.mergeable(e) && !c.mergeWindow()
}

// memberNotice takes in a notification about the register of a member. Those that wait for a better candidate list the
// members again: it may have left.
func (c *Core) memberNotice(name string) {
	id := strings.TrimPrefix(name, driver.MemberPrefix)
	c.outranked = c.outranked || c.rank.kind == rankLexicographic && id < c.cfg.ID
	if r := &c.roster; len(r.waiting) > 0 && !c.spreads() {
		c.listSoon()
	}
}
