package health

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// watch is what a monitor knows during one term.
type watch struct {
	opts    Options
	term    regent.Term
	start   time.Time
	members map[string]*member
	checks  int
	quick   int   // checks in a row that came early for a second opinion
	trouble error // why the members could not be listed
}

// maxQuick is how many second opinions are asked for in a row: verdicts that contradict each other for ever must not be followed every second.
const maxQuick = 3

// check lists the members, probes those that live, and judges all. It returns what it found and when to check next.
func (w *watch) check(ctx context.Context) (Cluster, time.Time) {
	began := time.Now()
	views, err := w.list(ctx)
	w.trouble = err
	pending := err != nil
	if err == nil {
		w.take(views, began, time.Now())
		answers := w.probeAll(ctx, w.living())
		if ctx.Err() != nil { // probes fail when the term ends, and that is no member's fault
			return Cluster{}, time.Time{}
		}
		pending = w.settle(answers, time.Now())
		w.checks++
	}
	if ctx.Err() != nil {
		return Cluster{}, time.Time{}
	}
	now := time.Now()
	c := w.cluster(now)
	w.tellCheck(c, now.Sub(began))
	return c, w.next(now, pending)
}

func (w *watch) list(ctx context.Context) ([]regent.MemberView, error) {
	ctx, cancel := context.WithTimeout(ctx, w.opts.ListTimeout)
	defer cancel()
	return w.opts.Members(ctx)
}

// take takes in a listing.
func (w *watch) take(views []regent.MemberView, began, received time.Time) {
	listed := map[string]bool{}
	for _, v := range views {
		listed[v.ID] = true
		m := w.members[v.ID]
		if m == nil {
			m = &member{status: Unknown, since: received, latency: -1}
			if w.checks == 0 {
				m.told = up // a failover is no news of those who live through it
			}
			w.members[v.ID] = m
			if m.see(v, began, received); m.vacant {
				w.meetVacant(m, received)
			}
			continue
		}
		there := !m.vacant
		joined := m.see(v, began, received)
		switch {
		case m.vacant && there:
			m.part()
		case joined && m.status.proved():
			m.begin(received)
		}
	}
	for id, m := range w.members {
		if !listed[id] && !m.vacant { // no register is ever deleted
			m.see(regent.MemberView{ID: id}, began, received)
			m.died, m.parting = true, "its register has vanished: was the store flushed, or restored?"
		}
	}
}

// meetVacant takes in a member that was gone before it was ever seen. It is not listed, unless it led the term before.
func (w *watch) meetVacant(m *member, now time.Time) {
	p := w.previous()
	if w.checks > 0 || p.Holder != m.view.ID {
		m.status, m.since, m.told, m.dropped, m.parting = Gone, now, down, true, "it left before this term"
		return
	}
	// Its register says nothing of it any more, but it must have been a candidate.
	m.view.Eligible, m.view.Elections = true, []string{w.term.Election}
	m.died = slices.Contains([]string{"expired", "died", "lost lease", "partition"}, p.Reason)
	m.parting = "it led the term before, which ended: " + p.Reason
}

// previous returns the term before this one; zero if it is not known.
func (w *watch) previous() driver.Past {
	if w.opts.Past != nil {
		for _, p := range slices.Backward(w.opts.Past()) {
			if p.Epoch < w.term.Epoch {
				return p
			}
		}
	}
	return driver.Past{}
}

// living returns the members to probe.
func (w *watch) living() []*member {
	var living []*member
	for _, m := range w.members {
		switch {
		case m.vacant || m.ranOut():
			m.cutAt, m.cutBeat, m.latency = time.Time{}, false, -1
		case m.view.Addr != "" && w.opts.Probe != nil:
			living = append(living, m)
		}
	}
	slices.SortFunc(living, func(a, b *member) int { return strings.Compare(a.view.ID, b.view.ID) })
	return living
}

// settle judges every member, tells what has changed, and reports whether a verdict awaits a second opinion.
func (w *watch) settle(answers map[*member]answer, now time.Time) (pending bool) {
	j := judge{opts: w.opts, term: w.term, age: now.Sub(w.start)}
	for _, m := range w.sorted() {
		a := answers[m]
		m.latency = -1
		if a.asked && a.err == nil {
			m.report, m.latency = a.report, a.latency
		}
		from := m.status
		if m.settle(j.verdict(m, a), now) {
			pending = true
		}
		m.died = m.died || m.status == Gone && !m.vacant
		m.dropped = m.dropped || m.status == Gone && now.Sub(m.since) >= w.opts.KeepGone
		w.tell(m, from, now)
	}
	return pending
}

// sorted returns all members by ID.
func (w *watch) sorted() []*member {
	all := make([]*member, 0, len(w.members))
	for _, m := range w.members {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *member) int { return strings.Compare(a.view.ID, b.view.ID) })
	return all
}

// cluster is what is known now.
func (w *watch) cluster(now time.Time) Cluster {
	listed := slices.DeleteFunc(w.sorted(), func(m *member) bool { return m.dropped })
	c := Cluster{Known: true, CheckedAt: now.Round(0), Leader: w.opts.Self, Epoch: w.term.Epoch, Members: make([]Member, 0, len(listed))}
	c.Status, c.Reasons = assess(listed, w.opts.Self, w.term.Election, w.trouble)
	for _, m := range listed {
		c.Members = append(c.Members, m.public())
	}
	c.Counts = count(c.Members)
	return c
}

// next is when to check again: after the interval, or sooner for a second opinion or a doubt.
func (w *watch) next(now time.Time, pending bool) time.Time {
	next := now.Add(w.opts.Interval)
	if pending && w.quick < maxQuick {
		w.quick++
		return now.Add(w.opts.Recheck)
	}
	w.quick = 0
	for _, m := range w.members {
		if at := m.due(w.opts.HeartbeatInterval); !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}
