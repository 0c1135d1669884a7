package health

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// term is what a monitor knows during one term.
type term struct {
	regent.Term
	opts    Options
	roster  *regent.Roster
	start   time.Time
	members map[string]*member
	checks  int
	quick   int   // checks in a row that came early to confirm a finding
	listErr error // why the members could not be listed
}

func newTerm(opts Options, lead regent.Term) *term {
	return &term{
		Term:    lead,
		opts:    opts,
		roster:  opts.NewRoster(),
		start:   time.Now(),
		members: map[string]*member{},
	}
}

// maxQuick is the most early checks in a row: findings that contradict each other without end must not be checked every
// second.
const maxQuick = 3

// check lists the members, probes those that are alive, and classifies all. It returns the result, and when to check
// next.
func (t *term) check(ctx context.Context) (Cluster, time.Time) {
	began := time.Now()
	states, err := t.list(ctx)
	t.listErr = err
	pending := err != nil
	if err == nil {
		t.update(states, began, time.Now())
		answers := t.probeAll(ctx, t.alive())
		if ctx.Err() != nil { // probes fail when the term ends, which says nothing about the members
			return Cluster{}, time.Time{}
		}
		pending = t.classifyAll(answers, time.Now())
		t.checks++
	}
	if ctx.Err() != nil {
		return Cluster{}, time.Time{}
	}

	now := time.Now()
	c := t.cluster(now)
	t.emitCheck(c, now.Sub(began))
	return c, t.nextCheck(now, pending)
}

func (t *term) list(ctx context.Context) ([]regent.MemberState, error) {
	ctx, cancel := context.WithTimeout(ctx, t.opts.ListTimeout)
	defer cancel()
	states, err := t.roster.List(ctx)
	if err == nil && t.opts.OnMembers != nil {
		t.opts.OnMembers(states)
	}

	return states, err
}

// update takes in a listing that was sent at began and answered at received.
func (t *term) update(states []regent.MemberState, began, received time.Time) {
	listed := map[string]bool{}
	for _, s := range states {
		listed[s.ID] = true
		m := t.members[s.ID]
		if m == nil {
			t.addMember(s, began, received)
			continue
		}

		present := !m.vacant
		joined := m.update(s, began, received)
		switch {
		case m.vacant && present:
			m.depart()
		case joined && m.status.proved():
			m.reset(received)
		}
	}

	for id, m := range t.members {
		if !listed[id] && !m.vacant { // only a register that was vacant for long is removed
			m.update(regent.MemberState{MemberView: regent.MemberView{ID: id}}, began, received)
			m.died = true
			m.departure = "its register has vanished: was the store flushed, or restored?"
		}
	}
}

// addMember adds a member that is new to this term.
func (t *term) addMember(s regent.MemberState, began, received time.Time) {
	m := &member{status: Unknown, since: received, latency: -1}
	if t.checks == 0 {
		m.emitted = up // members that were there before the failover emit no event
	}
	t.members[s.ID] = m

	m.update(s, began, received)
	if m.vacant {
		t.addVacant(m, received)
	}
}

// addVacant completes a member whose register was vacant from the beginning. It is not listed, unless it led the
// previous term.
func (t *term) addVacant(m *member, now time.Time) {
	past := t.previous()
	if t.checks > 0 || past.Holder != m.view.ID {
		m.status = Gone
		m.since = now
		m.emitted = down
		m.dropped = true
		m.departure = "it left before this term"
		return
	}

	// Its register has no data any more, but it must have been a candidate.
	m.view.Eligible = true
	m.view.Elections = []string{t.Election}
	m.died = silent(regent.Reason(past.Reason))
	if m.departure = proved[regent.Reason(past.Reason)]; m.departure == "" {
		m.departure = "it led the term before, which ended: " + past.Reason
	}
}

// previous returns the term before this one, or the zero value if it is not known.
func (t *term) previous() driver.Past {
	if t.opts.Past == nil {
		return driver.Past{}
	}
	for _, p := range slices.Backward(t.opts.Past()) {
		if p.Epoch < t.Epoch {
			return p
		}
	}

	return driver.Past{}
}

// alive returns the members to probe, and forgets the probes of all others that have no heartbeat.
func (t *term) alive() []*member {
	var alive []*member
	for _, m := range t.sorted() {
		switch {
		case m.vacant || m.expired():
			m.forgetProbes()
			m.latency = -1
		case m.view.Addr != "" && t.opts.Probe != nil:
			alive = append(alive, m)
		}
	}

	return alive
}

// classifyAll classifies all members and emits changes. It reports whether a finding needs another one.
func (t *term) classifyAll(answers map[*member]answer, now time.Time) (pending bool) {
	c := criteria{opts: t.opts, term: t.Term, age: now.Sub(t.start)}
	for _, m := range t.sorted() {
		a := answers[m]
		m.latency = -1
		if a.asked && a.err == nil {
			m.report = a.report
			m.latency = a.latency
		}

		from := m.status
		if m.apply(c.classify(m, a), now) {
			pending = true
		}
		if m.status == Gone {
			m.died = m.died || !m.vacant
			m.dropped = m.dropped || now.Sub(m.since) >= t.opts.KeepGone
		}
		t.emitMember(m, from, now)
	}

	return pending
}

// sorted returns all members by ID.
func (t *term) sorted() []*member {
	all := make([]*member, 0, len(t.members))
	for _, m := range t.members {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *member) int { return strings.Compare(a.view.ID, b.view.ID) })

	return all
}

// cluster returns the result of a check at now.
func (t *term) cluster(now time.Time) Cluster {
	listed := slices.DeleteFunc(t.sorted(), func(m *member) bool { return m.dropped })
	c := Cluster{
		Known:     true,
		CheckedAt: now.Round(0),
		Leader:    t.opts.Self,
		Epoch:     t.Epoch,
		Members:   make([]Member, 0, len(listed)),
	}
	c.Status, c.Reasons = assess(listed, t.opts.Self, t.Election, t.listErr)
	for _, m := range listed {
		c.Members = append(c.Members, m.public())
	}
	c.Counts = count(c.Members)

	return c
}

// nextCheck returns when to check again: after the interval, or earlier to confirm a finding or to settle an
// uncertainty.
func (t *term) nextCheck(now time.Time, pending bool) time.Time {
	if pending && t.quick < maxQuick {
		t.quick++
		return now.Add(t.opts.Recheck)
	}

	t.quick = 0
	next := now.Add(t.opts.Interval)
	for _, m := range t.members {
		at := m.nextCheck(t.opts.HeartbeatInterval)
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}

	return next
}
