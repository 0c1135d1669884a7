package orchestrate

import (
	"context"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/hostport"
)

// watchMembers keeps the workers of the pool up to date until the term ends. While there are no polls, members are not
// listed.
func (t *term) watchMembers() {
	for t.awaitPolls() {
		ctx, cancel := context.WithCancel(t.ctx)
		t.mu.Lock()
		t.stopWatch = cancel
		if len(t.entries) == 0 { // the last one was removed in between
			cancel()
		}
		t.mu.Unlock()

		for members, err := range t.o.opts.Members(ctx) {
			if err != nil {
				t.o.opts.Log.Warn("members cannot be listed: workers that join are not used yet", "error", err)
				continue
			}
			t.updateWorkers(members, time.Now())
		}

		stopped := ctx.Err() != nil
		cancel()
		if !stopped {
			return // they cannot be watched at all, as the error in the log says
		}
	}
}

// awaitPolls waits until there is a poll. It reports false if the term ends first.
func (t *term) awaitPolls() bool {
	for !t.hasPolls() {
		select {
		case <-t.firstPoll:
		case <-t.ctx.Done():
			return false
		}
	}

	return t.ctx.Err() == nil
}

// updateWorkers adds workers that are alive to the pool, and removes all others. The pool then reports the slots of
// removed workers as lost, and other workers get them.
func (t *term) updateWorkers(members []regent.MemberState, now time.Time) {
	var add []regent.MemberState
	var remove []regent.MemberState

	t.mu.Lock()
	for _, m := range members {
		t.members[m.ID] = m.MemberView
		worker := m.Alive && m.Worker && hostport.Valid(m.Addr)
		if worker {
			add = append(add, m)
		} else {
			remove = append(remove, m)
		}

		switch {
		case !m.Alive:
			delete(t.unanswered, m.ID)
		case worker && t.listedAt.IsZero() && !t.firstLeader:
			t.unanswered[m.ID] = true
		}
	}
	if t.listedAt.IsZero() {
		t.listedAt = now
	}
	t.mu.Unlock()

	for _, m := range remove {
		t.pool.Remove(m.ID)
	}
	for _, m := range add {
		t.pool.Add(m.ID, m.Addr)
	}
	t.wakeLoop()
}
