package slots

import (
	"maps"
	"slices"
	"time"
)

// defaultSettle is the default of Checker.Settle.
const defaultSettle = 10 * time.Second

// maxHoles is the most holes of a poll in a report.
const maxHoles = 100_000

// findHoles finds slots that no worker has completed, and polls that never ran. The journals end with the last slot of
// the last leader: neither the clock of a worker nor that of a former leader, which may have been ahead, counts.
func (c *Checker) findHoles(r *Report) {
	first, last := c.span()
	if last == 0 {
		r.Never = append(r.Never, slices.Sorted(maps.Keys(c.Schedules))...)
		return
	}

	r.From = time.UnixMilli(first)
	r.To = time.UnixMilli(last)
	settle := c.Settle
	if settle == 0 {
		settle = defaultSettle
	}
	until := last - settle.Milliseconds()

	for name, dues := range c.polls {
		order := slices.Sorted(maps.Keys(dues))
		r.addHoles(name, order[0], max(until, c.lastOf(dues)), dues, c.follow(name, order))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Schedules)) {
		if c.polls[name] != nil {
			continue
		}
		before := len(r.Holes)
		r.addHoles(name, first, until, nil, c.follow(name, nil))
		if len(r.Holes) > before {
			r.Never = append(r.Never, name)
		}
	}
}

// lastEpoch returns the epoch of the last leader that had a slot run.
func (c *Checker) lastEpoch() (epoch uint64) {
	for _, dues := range c.polls {
		for _, runs := range dues {
			for _, one := range runs {
				epoch = max(epoch, one.epoch)
			}
		}
	}

	return epoch
}

// span returns the due time of the first slot, and of the last slot of the last leader.
func (c *Checker) span() (first, last int64) {
	c.epoch = c.lastEpoch()
	for _, dues := range c.polls {
		for due := range dues {
			if first == 0 || due < first {
				first = due
			}
		}
		last = max(last, c.lastOf(dues))
	}

	return first, last
}

// lastOf returns the due time of the last slot of a poll that the last leader had run, or 0 if there is none.
func (c *Checker) lastOf(dues runsByDue) (last int64) {
	for due, runs := range dues {
		if slices.ContainsFunc(runs, func(one run) bool { return one.epoch == c.epoch }) {
			last = max(last, due)
		}
	}

	return last
}

// addHoles adds the slots of a poll after a time and up to another one that are not in its runs. next returns the due
// time after another one; nil if that is not known.
func (r *Report) addHoles(name string, after, until int64, dues runsByDue, next func(int64) int64) {
	if next == nil {
		return
	}

	found := 0
	for due := next(after); due != 0 && due <= until && found < maxHoles; due = next(due) {
		if dues[due] == nil {
			r.Holes = append(r.Holes, slotID(name, due))
			found++
		}
	}
}

// follow returns a function from a due time of a poll to the next one, or nil if that is not known. order are the due
// times in the journals.
func (c *Checker) follow(name string, order []int64) func(int64) int64 {
	if s := c.Schedules[name]; s != nil {
		return func(due int64) int64 {
			if t := s.Next(time.UnixMilli(due)); !t.IsZero() {
				return t.UnixMilli()
			}
			return 0
		}
	}

	step := int64(0)
	for i := 1; i < len(order); i++ {
		if d := order[i] - order[i-1]; step == 0 || d < step {
			step = d
		}
	}
	if step == 0 {
		return nil
	}

	return func(due int64) int64 { return due + step }
}
