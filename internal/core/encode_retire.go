package core

import (
	"maps"
	"slices"

	"github.com/regentd/regent/driver"
)

// retirement encodes the floor, what is being removed, and what is known of elections that nobody is interested in.
func (x *encoder) retirement(c *Core) {
	if c.cfg.Rest == 0 {
		return
	}

	f := &c.floor
	x.entity(&f.entity)
	x.flags(f.seen, f.again)
	x.unsigned(x.canon.Epoch(driver.FloorRegister, f.epoch))
	x.unsigned(x.canon.Epoch(driver.FloorRegister, max(f.raise, f.rec.Epoch)))
	x.retry(c, &f.retry)
	if f.seen {
		x.record(&f.rec)
		x.within(f.read, c.floorLife())
	}

	x.number(len(f.waiting))
	x.number(f.prune)
	for _, name := range c.dropped {
		x.text(name)
		x.within(c.droppedAt[name].at, max(c.cfg.Rest, c.cfg.LeaseDuration))
		x.within(c.droppedAt[name].held, c.floorLife())
	}

	for _, t := range c.retirements.all {
		x.flags(t != nil)
		if t == nil {
			continue
		}

		x.entity(&t.entity)
		x.text(t.name)
		x.number(int(t.phase))
		if t.phase >= retireSilent && t.phase <= retireRevoke {
			x.record(&t.dead.rec)
			x.ahead(t.dead.expires())
		}

		x.unsigned(x.canon.Rev(t.rec.Rev))
		x.unsigned(x.canon.Epoch(t.name, t.rec.Epoch))
		x.retry(c, &t.retry)
		x.number(t.tries)
		x.ahead(t.rested)
	}

	for _, name := range slices.Sorted(maps.Keys(c.memory)) {
		if _, ok := c.names[name]; !ok {
			x.text(name)
			x.unsigned(x.canon.Epoch(name, c.memory[name]))
		}
	}
}
