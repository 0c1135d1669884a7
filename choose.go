package regent

import (
	"context"
	"slices"
	"strings"
	"time"
)

// crowd is from how many seats on a member shares them with the other candidates rather than take all.
const crowd = 64

// choose picks, among seats that are free, those that this member should claim now, and says when to look at the others again.
func (e *engine) choose(open []*seat) (chosen []*seat, again time.Duration) {
	again = never
	if len(open) == 0 || !e.mayLead() {
		return nil, again
	}
	now := e.clock.Now()
	crowded := len(open) > crowd
	e.mu.Lock()
	for _, s := range open {
		if s.cand == nil {
			continue
		}
		if at, _ := e.notBefore(s, s.lease); at > now {
			again = min(again, at)
		} else {
			chosen = append(chosen, s)
		}
	}
	e.mu.Unlock()
	if len(chosen) > 0 && (crowded || e.cfg.Rank != RankFirst) {
		live, err := e.liveMembers()
		if err != nil {
			return nil, now + e.failureWait()
		}
		e.mu.Lock()
		self := e.aboutSelf()
		chosen = slices.DeleteFunc(chosen, func(s *seat) bool {
			_, open := e.notBefore(s, s.lease)
			yields := e.yields(s, self, live, crowded) && now < open+e.reservation()
			if yields {
				again = min(again, open+e.reservation())
			}
			return yields
		})
		e.mu.Unlock()
	}
	slices.SortFunc(chosen, func(a, b *seat) int { return strings.Compare(a.name, b.name) })
	return chosen, again
}

// notBefore is the time from which this member may claim a free seat with that record, and from which others have their head start. It is a courtesy; what is safe was
// decided before.
func (e *engine) notBefore(s *seat, l Lease) (at, open time.Duration) {
	at, open = s.barred, s.openSince
	if l.Next != e.m.ID { // whoever is asked for does not stand back
		at = max(at, s.holdBack)
	}
	if e.cfg.Rank == RankLexicographic && l.Epoch == 0 {
		// At a cold start the best candidate may still be waiting out its jitter.
		open = max(open, e.started+e.cfg.StartupJitterMax+min(e.reservation(), time.Second))
		at = max(at, open)
	}
	if next := l.Next; next != "" && next != anyone && next != e.m.ID {
		at = max(at, open+e.reservation())
	}
	return at, open
}

// yields reports whether another candidate should have the seat rather than this one: one of better rank, or, where many seats are free at
// once, the one whose share it is.
func (e *engine) yields(s *seat, self MemberInfo, live []MemberInfo, crowded bool) bool {
	if s.lease.Next == e.m.ID {
		return false
	}
	ids := []string{e.m.ID}
	for _, other := range live {
		if other.ID == e.m.ID || !other.runsFor(s.name) {
			continue
		}
		if e.cfg.Rank.compare(other, self) < 0 {
			return true
		}
		ids = append(ids, other.ID)
	}
	return crowded && e.cfg.Rank == RankFirst && share(s.name, ids) != e.m.ID
}

// liveMembers lists the members whose heartbeat has not run out, as far as this member can tell: a hint for ranks, never a proof. So one that
// is a little old will do: when many join at once, each of them wakes all others.
func (e *engine) liveMembers() ([]MemberInfo, error) {
	began := e.now()
	if e.live != nil && began.at-e.listedAt < min(e.reservation(), time.Second)/2 {
		return e.live, nil
	}
	found, err := e.list(memberPrefix)
	if err != nil {
		return nil, err
	}
	now := e.clock.Now()
	var live []MemberInfo
	for name, l := range found {
		e.felt(name, l, nil, began)
		e.mu.Lock()
		h := e.sightOf(name)
		if !l.Vacant() && !h.gone && now < h.ranOut() {
			live = append(live, memberInfo(l))
		}
		e.mu.Unlock()
	}
	e.live, e.listedAt = live, began.at
	return live, nil
}

// attend sees to the seats that this member holds and should not, being sick, and to those that it does not hold and should, being better.
// It returns when to do so again.
func (e *engine) attend() time.Duration {
	now := e.clock.Now()
	e.mu.Lock()
	ill := e.ill()
	preempt := e.cfg.Preempt && ill == nil && e.cfg.Eligible && e.self != nil && now >= e.rankedAt+e.cfg.ElectionInterval
	var held, others []*seat
	for _, s := range e.seats {
		switch {
		case s.term != nil && !s.term.over.Load() && ill != nil && !s.lease.Paused: // nobody could take a paused one
			held = append(held, s)
		case preempt && s.cand != nil && e.followed(s) && s.lease.Next == "" && !s.lease.Paused:
			others = append(others, s)
		}
	}
	self := e.aboutSelf()
	e.mu.Unlock()
	if len(held) == 0 && len(others) == 0 {
		return never
	}
	e.rankedAt = now
	again := now + e.cfg.HeartbeatInterval
	live, err := e.liveMembers()
	if err != nil {
		return again
	}
	for _, s := range held {
		// Never as the last one: a sick leader is better than none.
		if to := e.successor(s.name, live); to != "" {
			e.mu.Lock()
			t := s.term
			e.mu.Unlock()
			if t != nil {
				e.end(ErrUnhealthy, to, t)
			}
		}
	}
	for _, s := range others {
		if e.best(s, self, live) {
			ctx, cancel := context.WithTimeout(e.ctx, e.patience)
			_, _ = e.m.ask(ctx, s.name, func(l *Lease) error { l.Next = e.m.ID; return nil }) // asked again at the next look
			cancel()
		}
	}
	return again
}

// best reports whether this member outranks a seat's holder, and nobody else who would take the seat outranks this member.
func (e *engine) best(s *seat, self MemberInfo, live []MemberInfo) bool {
	outranks := false
	for _, i := range live {
		switch c := e.cfg.Rank.compare(self, i); {
		case i.ID == s.lease.Holder.ID:
			outranks = c < 0
		case i.ID != e.m.ID && i.runsFor(s.name) && c > 0:
			return false
		}
	}
	return outranks
}

// successor is the best healthy candidate for an election but this member.
func (e *engine) successor(election string, live []MemberInfo) string {
	var best MemberInfo
	for _, i := range live {
		if i.ID == e.m.ID || !i.runsFor(election) {
			continue
		}
		c := e.cfg.Rank.compare(i, best)
		if best.ID == "" || c < 0 || c == 0 && i.ID < best.ID {
			best = i
		}
	}
	return best.ID
}

// anyone stands for every other candidate, where a successor is named.
const anyone = "*"

// obey does what the record of a held seat asks for. The engine's mutex is held.
func (e *engine) obey(s *seat) {
	t, l := s.term, s.lease
	if t == nil || l.Next == "" || l.Holder != t.life.who || l.Next == e.m.ID {
		return
	}
	cause := ErrHandedOff
	switch {
	case l.Next == anyone && l.Paused:
		cause = ErrPaused
	case l.Next == anyone:
		cause = ErrSteppedDown
	}
	e.wg.Go(func() { e.end(cause, l.Next, t) })
}
