package elections

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// Selection is what a page shows.
type Selection struct {
	After      string // only names after this one
	Limit      int    // of elections
	Candidates int    // at most, of each election
	History    bool   // with the terms that have ended
}

// Page returns the selected elections, by name.
func (s *List) Page(of Selection) Answer {
	a := Answer{
		Rank:       s.rank,
		AsOf:       s.sent.Round(0).UTC(),
		AgeMs:      time.Since(s.sent).Milliseconds(),
		TookMs:     float64(s.took.Microseconds()) / 1000,
		Total:      s.total,
		Truncated:  s.total > len(s.elections),
		Unreadable: s.unreadable,
		Elections:  []Election{},
	}

	first, found := slices.BinarySearchFunc(s.elections, of.After, func(r driver.Record, name string) int {
		return strings.Compare(r.Name, name)
	})
	if found {
		first++
	}

	last := min(first+of.Limit, len(s.elections))
	for _, r := range s.elections[first:last] {
		a.Elections = append(a.Elections, s.election(r, of))
	}

	if last < len(s.elections) {
		a.Next = s.elections[last-1].Name
	}

	return a
}

// election returns an election as it is shown.
func (s *List) election(r driver.Record, of Selection) Election {
	e := Election{
		Name: r.Name, State: Led, Paused: r.Paused, Leader: r.Holder.ID, LeaderAddr: r.Addr, Holder: r.Holder.ID,
		Epoch: r.Epoch, Since: r.Since, Next: r.Next, LeaseDurationMs: r.Duration.Milliseconds(),
	}
	s.addHeartbeat(&e, r)

	e.Why = s.why(e.State, r)

	all := s.candidates(&e)
	e.CandidateCount = len(all)
	for _, c := range all {
		if c.CanLead {
			e.EligibleCount++
		}
	}

	e.Finished = e.State == Vacant && e.CandidateCount == 0 && e.Why.Reason == string(regent.ReasonReturned)
	e.Candidates = all[:min(of.Candidates, len(all))]
	if of.History && s.total <= maxHistories {
		e.Terms = r.Past
	}

	return e
}

// why returns how the last term ended that did.
func (s *List) why(state State, r driver.Record) *Why {
	if state != Expired {
		return Explain(regent.View{Leader: r.Holder.ID, Epoch: r.Epoch, Known: r.Epoch, Since: r.Since, Past: r.Past})
	}

	b := regent.Before{Leader: r.Holder.ID, Reason: regent.ReasonExpired, Vacant: -1}
	for _, p := range s.beats[r.Via].record.Past { // which says how the last incarnation has ended
		if strings.HasPrefix(r.Holder.Incarnation, fmt.Sprintf("%d.", p.Epoch)) {
			b.Reason = regent.Reason(p.Reason)
			b.Ended = p.Ended
		}
	}

	y := inWords(b)
	y.Text += "; nobody has taken over"
	return y
}

// addHeartbeat adds the state of an election, and the age of its leader's heartbeat as far as it is known.
func (s *List) addHeartbeat(e *Election, r driver.Record) {
	if r.Vacant() {
		e.State = Vacant
		return
	}

	register := r.Via
	if register == "" {
		register = r.Name
	}

	h, listed := s.beats[register]
	switch {
	case !listed || h.record.Holder != r.Holder:
		if s.proved[register] {
			e.Expire()
		}
		return
	case !h.alive():
		e.Expire()
	}

	if h.known() {
		e.Heartbeat(h.age, h.record.Duration-h.age)
	}
}
