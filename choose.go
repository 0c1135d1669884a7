package regent

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

// crowd is from how many seats on a member shares them with the other candidates rather than take all.
const crowd = 64

// choose picks, among seats that are free, those that this member should claim now, and says when to try the others again.
func (e *engine) choose(open []*seat) (chosen []*seat, again time.Duration) {
	again = never
	healthy := e.mayLead()
	if len(open) == 0 || !healthy && !e.lastResort() {
		return nil, again
	}
	now := e.clock.Now()
	crowded := len(open) > crowd
	ranked := crowded || e.cfg.Rank != RankFirst
	var offers []offer
	e.mu.Lock()
	for _, s := range open {
		if s.cand == nil {
			continue
		}
		at, since := e.notBefore(s, s.lease)
		if !healthy {
			at = max(at, s.openSince+e.reservation()) // every healthy candidate comes first
		}
		if at > now {
			again = min(again, at)
			continue
		}
		chosen = append(chosen, s)
		offers = append(offers, offer{s.name, s.lease.Next, s.lastHeld.Holder, since + e.reservation()})
	}
	self := e.aboutSelf()
	e.mu.Unlock()

	if !healthy && len(chosen) > 0 {
		live, known := e.roster.recent(e)
		chosen = slices.DeleteFunc(chosen, func(s *seat) bool { return !known || e.successor(s.name, live) != "" })
		return chosen, min(again, now+e.cfg.HeartbeatInterval)
	}
	if ranked && len(chosen) > 0 {
		// Who yields is computed without the mutex: it takes time for many seats and members, and a lease may end meanwhile.
		live, known := e.roster.recent(e)
		i := 0
		chosen = slices.DeleteFunc(chosen, func(s *seat) bool {
			o := offers[i]
			i++
			if now >= o.until || known && !e.yields(o, self, live, crowded) {
				return false
			}
			again = min(again, o.until)
			if known {
				e.standBack(s, min(now+e.spread(), o.until))
			}
			return true
		})
	}
	slices.SortFunc(chosen, func(a, b *seat) int { return strings.Compare(a.name, b.name) })
	return chosen, again
}

// offer is a free seat, and until when this member lets a better candidate have it.
type offer struct {
	election string
	next     string          // the successor that was asked for
	last     driver.Identity // who has held it and does no more
	until    time.Duration
}

// notBefore is the time from which this member may claim a free seat with that record, and from which others have their head start. It is a courtesy; what is safe was
// decided before.
func (e *engine) notBefore(s *seat, l driver.Record) (at, open time.Duration) {
	at, open = max(s.barred, s.standBack), s.openSince
	if l.Next != e.m.ID { // whoever is asked for does not stand back
		at = max(at, s.holdBack)
	}
	if end := e.coldStartEnd(s); end > 0 && l.Next != e.m.ID {
		at = max(at, end+e.turn())
		open = max(open, end+2*e.spread()) // when everybody had a turn
	}
	if e.returned(l) {
		at = max(at, open+e.reservation())
	}
	if next := l.Next; next != "" && next != anyone && next != e.m.ID {
		at = max(at, open+e.reservation())
	}
	return at, open
}

// returned reports whether the holder of a record has joined again, in another run, before anybody took over: it has a head
// start, so that a leader which was silent for less than its lease and the takeover delay leads again, unless a rank decides
// who should lead. The engine's mutex is held.
func (e *engine) returned(l driver.Record) bool {
	if l.Vacant() || l.Via == "" || l.Holder.ID == e.m.ID || e.cfg.Rank != RankFirst {
		return false
	}
	h := e.sights[l.Via]
	return h != nil && h.lease.Holder.ID == l.Holder.ID && h.lease.Holder != l.Holder
}

// yields reports whether another candidate should have the seat rather than this one: one of better rank, or, where many
// seats are free at once, the one whose share it is.
func (e *engine) yields(o offer, self MemberInfo, live []MemberInfo, crowded bool) bool {
	if o.next == e.m.ID {
		return false
	}
	ids := []string{e.m.ID}
	for _, other := range live {
		if other.ID == e.m.ID || !other.runsFor(o.election) || other.isRun(o.last) {
			continue
		}
		if e.cfg.Rank.compare(other, self) < 0 {
			return true
		}
		ids = append(ids, other.ID)
	}
	return crowded && e.cfg.Rank == RankFirst && share(o.election, ids) != e.m.ID
}

// attend sees to the seats that this member holds and should not, being sick, and to those that it does not hold and should, being better.
// It returns when to do so again.
func (e *engine) attend() time.Duration {
	now := e.clock.Now()
	e.mu.Lock()
	ill := e.ill()
	preempt := e.cfg.Preempt && ill == nil && e.cfg.Eligible && e.self != nil && now >= e.rankedAt+e.cfg.ElectionInterval
	var held, others []*seat
	epochs := map[*seat]uint64{} // in which a worse leader was seen: a later one is not asked
	for _, s := range e.seats {
		switch {
		case s.term != nil && !s.term.over.Load() && ill != nil && !s.lease.Paused: // nobody could take a paused one
			held = append(held, s)
		case preempt && s.cand != nil && e.followed(s) && s.lease.Next == "" && !s.lease.Paused:
			others = append(others, s)
			epochs[s] = s.lease.Epoch
		}
	}
	self := e.aboutSelf()
	e.mu.Unlock()
	if len(held) == 0 && len(others) == 0 {
		return never
	}
	again := now + e.cfg.HeartbeatInterval
	live, known := e.roster.recent(e)
	if !known {
		return again // or as soon as it is
	}
	e.rankedAt = now
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
			_, _ = e.m.ask(ctx, s.name, func(l *driver.Record) error { // asked again after the next listing
				l.Next = e.m.ID
				return holds([]Condition{AtEpoch(epochs[s])}, l.Epoch)
			})
			silent := ctx.Err() != nil
			cancel()
			if silent { // the store does not answer, and would not for the next one
				break
			}
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
