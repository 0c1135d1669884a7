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
	Watched   bool          // Age is known
	Age       time.Duration // how long ago the newest heartbeat of its holder was first received
	Expired   bool          // no newer one has come in time, or the holder's incarnation has ended
	Reason    string        // if Expired: why the term ended, as far as that is known
}

// rereadWithin is how long a read may take that would show a newer heartbeat.
const rereadWithin = 2 * time.Second

// View returns what is known of an election at now, and false if it was never received.
func (c *Core) View(name string, now Time) (View, bool) {
	v, ok := c.view(name, now)
	if v.Expired {
		v.Reason = c.endingOf(c.elections.all[c.names[name]], &v.Record).reason
	}

	return v, ok
}

func (c *Core) view(name string, now Time) (View, bool) {
	i, ok := c.names[name]
	if !ok || !c.elections.all[i].seen {
		return View{}, false
	}

	e := c.elections.all[i]
	v := View{Record: e.rec, Known: max(e.rec.Epoch, c.memory[name])}
	if !c.followed(e) {
		return v, true
	}

	if slices.Contains(c.endings, e.rec.Holder) { // a term of this process that has ended, and could not be released
		v.Expired = true
		return v, true
	}

	w := &e.own
	if e.rec.Via != "" {
		k, ok := c.sighted[e.rec.Via]
		if !ok {
			return v, true
		}
		if s := c.sights.all[k]; s.watch.rec.Holder != e.rec.Holder {
			v.Expired = s.proof > e.after && outlived(&s.watch.rec, e.rec.Holder)
			return v, true
		}

		w = &c.sights.all[k].watch
		v.Heartbeat = w.rec
		if c.sights.all[k].anew { // others watch it closely: how old its last heartbeat is says nothing of it
			return v, true
		}
	}

	if w.seen {
		end := w.expires().Add(c.cfg.TakeoverDelay)
		v.Watched = true
		v.Age = time.Duration(now - w.since)
		v.Expired = w.began >= end || now >= end.Add(rereadWithin)
	}

	return v, true
}

// outlived reports whether a heartbeat register shows that an incarnation has ended. A register that counts fewer
// incarnations, or shows another one with the same number, has forgotten it: that proves nothing (rule 5).
func outlived(heartbeat *driver.Record, holder driver.Identity) bool {
	count := incarnationCount(holder.Incarnation)
	return heartbeat.Epoch > count || heartbeat.Epoch == count && heartbeat.Vacant()
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
	c.floor.rec = old.floor.rec
	c.floor.seen = old.floor.seen
	c.floor.again = old.floor.again || old.floor.call.write()
	c.floor.read = old.floor.read
	c.known = old.known
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
