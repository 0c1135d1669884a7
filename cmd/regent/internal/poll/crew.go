package poll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/hostport"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/work"
)

// member is a member of the cluster as the conductor sees it.
type member struct {
	view regent.MemberView
	seen time.Time // when its revision was last seen to change
}

// lookAround keeps the pool's workers those that live.
func (c *conduct) lookAround() {
	var hints <-chan driver.Record
	if c.o.opts.Hints != nil {
		hints = c.o.opts.Hints(c.ctx)
	}
	tick := time.NewTicker(c.o.opts.Look)
	defer tick.Stop()
	for {
		if !c.busy() { // without polls nobody need be known
			select {
			case <-c.needed:
			case <-c.ctx.Done():
				return
			}
		}
		ctx, cancel := context.WithTimeout(c.ctx, max(c.o.opts.Look, time.Second))
		views, err := c.o.opts.Members(ctx)
		cancel()
		if c.ctx.Err() != nil {
			return
		}
		if err != nil {
			c.o.opts.Log.Warn("members cannot be listed", "error", err)
		} else {
			c.see(views, time.Now())
		}
		select {
		case <-tick.C:
		case <-hints:
		case <-c.ctx.Done():
			return
		}
	}
}

func (c *conduct) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries) > 0
}

// see takes in the members as they are. One whose heartbeat has run out is as good as gone: what it had is given to others.
func (c *conduct) see(views []regent.MemberView, now time.Time) {
	var add, remove []regent.MemberView
	c.mu.Lock()
	for _, v := range views {
		m := c.members[v.ID]
		if m == nil {
			m = &member{}
			c.members[v.ID] = m
		}
		if m.view.Rev != v.Rev {
			m.seen = now
		}
		m.view = v
		switch {
		case v.Incarnation == "" || now.Sub(m.seen) > v.Lease:
			remove = append(remove, v)
			delete(c.suspects, v.ID)
		case v.Worker && hostport.Valid(v.Addr):
			add = append(add, v)
			if c.looked.IsZero() && !c.first {
				c.suspects[v.ID] = true
			}
		default:
			remove = append(remove, v)
		}
	}
	if c.looked.IsZero() {
		c.looked = now
	}
	c.giveUp(now)
	c.mu.Unlock()
	for _, v := range remove {
		c.pool.Remove(v.ID)
	}
	for _, v := range add {
		c.pool.Add(v.ID, v.Addr)
	}
	c.stir()
}

// crew are the workers of one round of sending.
type crew struct {
	workers []work.WorkerView
	members map[string]*member
	self    string
	turn    *int // who is looked at first, so that equals take turns
}

func (c *conduct) crew() *crew { return &crew{c.pool.Workers(), c.members, c.o.opts.Leader, &c.turn} }

// pick returns the worker that should have a slot, or nil: if possible another node than the leader's own, since what that has done is not known to
// the next leader if it dies; if possible one that has not tried it before; and of these the one with the least to do.
func (c *crew) pick(s *slot) *work.WorkerView {
	var best *work.WorkerView
	least := 0
	*c.turn++
	for i := range c.workers {
		w := &c.workers[(i+*c.turn)%len(c.workers)]
		m := c.members[w.ID]
		if !w.Usable() || m == nil || slices.Contains(s.refused, w.ID) || !s.entry.poll.Matches(w.ID, m.view.Labels) {
			continue
		}
		against := 0
		if slices.Contains(s.tried, w.ID) {
			against++
		}
		if w.ID == c.self {
			against += 2
		}
		if best == nil || against < least || against == least && w.Tasks < best.Tasks {
			best, least = w, against
		}
	}
	return best
}

// problem says why nobody takes a slot.
func (c *crew) problem(s *slot) string {
	if len(c.workers) == 0 {
		return "there is no worker"
	}
	var assigned, usable []string
	var failed error
	for _, w := range c.workers {
		m := c.members[w.ID]
		if m == nil || !s.entry.poll.Matches(w.ID, m.view.Labels) {
			continue
		}
		assigned = append(assigned, w.ID)
		if w.Usable() {
			usable = append(usable, w.ID)
		} else if w.Err != nil {
			failed = w.Err
		}
	}
	kind := fmt.Sprintf("no worker makes %s checks", s.entry.poll.Kind)
	switch {
	case len(assigned) == 0:
		return "no worker is one that it is assigned to, which is " + s.entry.poll.Assign
	case len(usable) == 0 && failed != nil:
		return "no worker that it is assigned to can be reached: " + failed.Error()
	case len(usable) == 0:
		return "every worker that it is assigned to is busy, or was not reached yet"
	case !slices.ContainsFunc(usable, func(id string) bool { return !slices.Contains(s.lacking, id) }) && s.entry.poll.Assign == "any":
		return kind
	case !slices.ContainsFunc(usable, func(id string) bool { return !slices.Contains(s.lacking, id) }):
		return kind + " of those that it is assigned to, which is " + s.entry.poll.Assign
	}
	return "every worker has refused it"
}

// refuse notes that a worker has not taken a slot, and whether it never will.
func (s *slot) refuse(worker string, err error) {
	s.refused = append(s.refused, worker)
	if errors.Is(err, work.ErrUnknownKind) && !slices.Contains(s.lacking, worker) {
		s.lacking = append(s.lacking, worker)
	}
}

// why says why slots of a poll have waited until it was too late.
func (e *entry) why() string {
	switch {
	case e.problem != "":
		return e.problem
	case len(e.out) >= e.poll.Concurrency:
		return "the runs before it have not ended"
	}
	return "there were more than its workers could run in time"
}
