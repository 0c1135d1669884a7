package core

import (
	"maps"
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// View is an election as a core knows it.
type View struct {
	Record    driver.Record
	Known     uint64        // the highest epoch seen: above that of the record if the store has lost writes
	Heartbeat driver.Record // the register of its holder, if somebody else is that, and has no lease of its own
	Watched   bool          // Age and Expired are known
	Age       time.Duration // how long ago the newest heartbeat of its holder was first received
	Expired   bool          // no newer one has come in time
}

// rereadWithin is how long a read may take that would show a newer heartbeat.
const rereadWithin = 2 * time.Second

// View returns what is known of an election at now, and false if it was never received.
func (c *Core) View(name string, now Time) (View, bool) {
	i, ok := c.names[name]
	if !ok || !c.elections.all[i].seen {
		return View{}, false
	}

	e := c.elections.all[i]
	v := View{Record: e.rec, Known: max(e.rec.Epoch, c.memory[name])}
	if !c.followed(e) {
		return v, true
	}

	w := &e.own
	if e.rec.Via != "" {
		k, ok := c.sighted[e.rec.Via]
		if !ok || c.sights.all[k].watch.rec.Holder != e.rec.Holder {
			return v, true
		}

		w = &c.sights.all[k].watch
		v.Heartbeat = w.rec
	}

	if w.seen {
		end := w.expires().Add(c.cfg.TakeoverDelay)
		v.Watched = true
		v.Age = time.Duration(now - w.since)
		v.Expired = w.began >= end || now >= end.Add(rereadWithin)
	}

	return v, true
}

// show emits what is known of an election to whoever is newly interested in it.
func (c *Core) show(e *election) {
	if e.seen {
		c.emit(Changed{e.rec})
	}
}

// Inherit takes over what a process knows longer than one core lives, from the core before. Neither is stepped any more
// before, and the older one never again.
func (c *Core) Inherit(old *Core) {
	c.memory = maps.Clone(old.memory)
	c.endings = slices.Clone(old.endings)
	c.ends = slices.Clone(old.ends)
	c.runs = old.runs
	c.seq = old.seq // an answer to one of its requests is not taken for one of ours
	c.stats = old.stats
	c.floor.epoch = old.floor.epoch
	c.dropped = slices.Clone(old.dropped)
	c.droppedAt = maps.Clone(old.droppedAt)
}

// Remember takes in the highest epoch that the process has seen of an election.
func (c *Core) Remember(election string, epoch uint64) { c.learn(election, epoch) }

// Registers returns how many heartbeat registers of others the core keeps what it knows of.
func (c *Core) Registers() int { return len(c.sighted) + len(c.roster.byName) }

// Blocked returns the register of the other process that keeps this one from joining, and whether that process is known
// to be alive. False means that there is none.
func (c *Core) Blocked() (other driver.Record, alive, blocked bool) {
	m := &c.member
	if m.phase != memberWaiting {
		return driver.Record{}, false, false
	}

	return m.other.rec, m.alive, true
}
