package orchestrate

import (
	"context"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/hostport"
	"github.com/regentd/regent/driver"
)

// liveMember is a member of the cluster, and whether its heartbeat is in force.
type liveMember struct {
	regent.MemberView
	alive bool
}

// watchMembers keeps the workers of the pool up to date. While there are no polls, it lists nobody.
func (t *term) watchMembers() {
	var heartbeats heartbeats
	var changed <-chan driver.Record
	if t.o.opts.MembersChanged != nil {
		changed = t.o.opts.MembersChanged(t.ctx)
	}
	tick := time.NewTicker(t.o.opts.ListInterval)
	defer tick.Stop()

	for {
		if !t.hasPolls() {
			select {
			case <-t.firstPoll:
			case <-t.ctx.Done():
				return
			}
		}

		views, err := t.listMembers()
		if t.ctx.Err() != nil {
			return
		}
		if err != nil {
			t.o.opts.Log.Warn("members cannot be listed: workers that join are not used yet", "error", err)
		} else {
			now := time.Now()
			t.updateWorkers(heartbeats.update(views, now), now)
		}

		select {
		case <-tick.C:
		case <-changed:
		case <-t.ctx.Done():
			return
		}
	}
}

func (t *term) listMembers() ([]regent.MemberView, error) {
	ctx, cancel := context.WithTimeout(t.ctx, max(t.o.opts.ListInterval, time.Second))
	defer cancel()
	return t.o.opts.Members(ctx)
}

// heartbeats tells which members are alive: those whose revision has changed within their lease. The zero value is
// ready for use.
type heartbeats struct {
	revs    map[string]string
	changed map[string]time.Time // when the revision was last seen to change
}

// update returns the members of a listing that was received at now.
func (h *heartbeats) update(views []regent.MemberView, now time.Time) []liveMember {
	if h.revs == nil {
		h.revs = map[string]string{}
		h.changed = map[string]time.Time{}
	}

	members := make([]liveMember, len(views))
	for i, v := range views {
		if h.revs[v.ID] != v.Rev {
			h.revs[v.ID] = v.Rev
			h.changed[v.ID] = now
		}
		alive := v.Incarnation != "" && now.Sub(h.changed[v.ID]) <= v.Lease
		members[i] = liveMember{v, alive}
	}

	return members
}

// updateWorkers adds workers that are alive to the pool, and removes all others. The pool then reports the slots of
// removed workers as lost, and other workers get them.
func (t *term) updateWorkers(members []liveMember, now time.Time) {
	var add []liveMember
	var remove []liveMember

	t.mu.Lock()
	for _, m := range members {
		t.members[m.ID] = m.MemberView
		worker := m.alive && m.Worker && hostport.Valid(m.Addr)
		if worker {
			add = append(add, m)
		} else {
			remove = append(remove, m)
		}

		switch {
		case !m.alive:
			delete(t.unanswered, m.ID)
		case worker && t.listedAt.IsZero() && !t.firstLeader:
			t.unanswered[m.ID] = true
		}
	}
	if t.listedAt.IsZero() {
		t.listedAt = now
	}
	t.giveUpLocked(now)
	t.mu.Unlock()

	for _, m := range remove {
		t.pool.Remove(m.ID)
	}
	for _, m := range add {
		t.pool.Add(m.ID, m.Addr)
	}
	t.wakeLoop()
}
