package core

import (
	"maps"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is what a shell may ask a core for between two steps. Nothing here changes anything.

// View is an election as this member last saw it.
type View struct {
	Record driver.Record
	Known  uint64 // the highest epoch that this member knows of: more than that of the record if the store has lost writes

	// HeartbeatAge is how long ago the newest heartbeat of a holder that is somebody else was received first; 0 if none
	// was. Expired says that no newer one has come for longer than the lease and the takeover delay.
	HeartbeatAge time.Duration
	Expired      bool
}

// View returns what is known of an election at now. False means that nothing is.
func (c *Core) View(name string, now Time) (View, bool) {
	i, ok := c.names[name]
	if !ok || !c.elections.all[i].seen {
		return View{}, false
	}
	e := c.elections.all[i]
	v := View{Record: e.rec, Known: max(e.rec.Epoch, c.memory[name])}
	v.HeartbeatAge, v.Expired = c.heartbeatAge(e, now)
	return v, true
}

// rereadWithin is how long a read may take that would show a newer heartbeat.
const rereadWithin = 2 * time.Second

// heartbeatAge returns how old the newest heartbeat is that was seen of an election's holder, and whether it has expired:
// it was read again when it should have been replaced, and was not; or it could not be read.
func (c *Core) heartbeatAge(e *election, now Time) (age time.Duration, expired bool) {
	if !c.followed(e) {
		return 0, false
	}
	w := c.watchOf(e)
	if w == nil || !w.seen || w.rec.Holder != e.rec.Holder {
		return 0, false
	}
	end := w.expires().Add(c.cfg.TakeoverDelay)
	return time.Duration(now - w.since), w.began >= end || now >= end.Add(rereadWithin)
}

// watchOf returns what is known of the heartbeat of an election's holder; nil if that is not watched.
func (c *Core) watchOf(e *election) *watch {
	if e.rec.Via == "" {
		return &e.own
	}
	if i, ok := c.sighted[e.rec.Via]; ok {
		return &c.sights.all[i].watch
	}
	return nil
}

// HolderRegister returns the member register of whoever holds an election, as it was last read. False means that nobody
// holds it, that this member does, or that the register is not known.
func (c *Core) HolderRegister(name string) (driver.Record, bool) {
	i, ok := c.names[name]
	if !ok {
		return driver.Record{}, false
	}
	e := c.elections.all[i]
	if !e.seen || e.rec.Vacant() || e.rec.Via == "" || e.rec.Holder.ID == c.cfg.ID {
		return driver.Record{}, false
	}
	w := c.watchOf(e)
	if w == nil || !w.seen || w.rec.Holder != e.rec.Holder {
		return driver.Record{}, false
	}
	return w.rec, true
}

// Blocked returns the register of the other process that keeps this one from joining, as EventWaiting told it last, and
// whether that process is known to be alive. False means that there is none.
func (c *Core) Blocked() (other driver.Record, alive, blocked bool) {
	m := &c.member
	if m.phase != memberWaiting {
		return driver.Record{}, false, false
	}
	return m.other.rec, m.alive, true
}

// Memory is what a process remembers when one core follows another.
type Memory struct {
	epochs  map[string]uint64
	endings []driver.Identity
	ends    []lifeEnd
	runs    uint64
	seq     uint64
	stats   Stats
}

// Memory returns what the next core of the process must remember. Terms must not be running any more when it starts.
func (c *Core) Memory() Memory {
	return Memory{maps.Clone(c.memory), c.endings, c.ends, c.runs, c.seq, c.stats}
}

// Remember takes over the memory of the core before, before the first step. The incarnation that this one had has ended,
// even if its loop died before it could leave.
func (c *Core) Remember(m Memory) {
	c.memory = maps.Clone(m.epochs)
	if c.memory == nil {
		c.memory = map[string]uint64{}
	}
	c.endings = m.endings
	c.ends = m.ends
	c.runs = m.runs
	c.seq = m.seq
	c.stats = m.stats
}
