package cores

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

const maxUndo = 8 // how many writes the store may lose

// send takes a request to the store and its answer back, if nothing happens on the way.
func (s *sim) send(p *proc, q core.Send) {
	there := s.latency()
	back := s.latency()
	known := p.shown[q.Record.Name]
	answer := func(o core.Outcome, r driver.Record) {
		p.later(back, func() {
			if o == core.Unknown {
				s.reached |= UnknownOutcome
			}
			if o == core.Done {
				p.shown[r.Name] = max(p.shown[r.Name], r.Epoch)
			}
			if o == core.Done && p.core.Awaits(q.ID) {
				p.shownAt[r.Name] = s.now
			}
			p.reading = q.Verb == core.Get
			a := core.Answer{ID: q.ID, Outcome: o, Record: r}
			if q.Verb == core.List && o == core.Done {
				a.Records = s.members()
			}
			p.step(a)
			p.reading = false
		})
	}

	switch {
	case s.now < p.cut && s.chance(0.5) || s.now < s.faults.refusing:
		answer(core.Unknown, driver.Record{}) // refused at once
		return
	case s.now < p.cut || s.now < s.faults.hanging || s.lose():
		s.log("p%d: request %d is lost", p.index, q.ID>>32)
		return // it never arrives, and is never answered
	}
	s.after(there, func() {
		if s.now < s.faults.hanging {
			return
		}
		o, r := s.apply(p, q, known)
		if s.lose() || s.now < p.cut {
			s.log("p%d: the answer to %d is lost", p.index, q.ID>>32)
			return
		}
		answer(o, r)
	})
}

// apply lets a request reach the store. When it was sent, its process had been shown the epoch that is known.
func (s *sim) apply(p *proc, q core.Send, known uint64) (core.Outcome, driver.Record) {
	before, ok := s.records[q.Record.Name]
	switch {
	case q.Verb == core.Get && !ok:
		return core.NotFound, driver.Record{}
	case q.Verb == core.Get:
		return core.Done, before
	case q.Verb == core.List: // what it shows is read when it is answered
		return core.Done, driver.Record{}
	case before.Rev != q.Record.Rev:
		return core.Conflict, driver.Record{}
	}

	after := q.Record
	after.Rev = strconv.FormatUint(s.draw(), 10)
	before.Name = after.Name
	s.undo = append(s.undo[max(0, len(s.undo)-maxUndo+1):], before)
	s.records[after.Name] = after
	if s.trace != nil {
		s.log("p%d writes %+v", p.index, after)
	}
	if strings.HasPrefix(after.Name, "regent/") {
		s.checkMember(p, &before, &after)
	} else {
		s.checkWrite(p, known, &before, &after)
	}
	s.notify(p, &before, &after)
	return core.Done, after
}

// members returns the member registers, in the order of their names.
func (s *sim) members() []driver.Record {
	var all []driver.Record
	for _, name := range slices.Sorted(maps.Keys(s.records)) {
		if strings.HasPrefix(name, driver.MemberPrefix) {
			all = append(all, s.records[name])
		}
	}
	return all
}

// checkMember notes what a write to a member register shows.
func (s *sim) checkMember(p *proc, before, after *driver.Record) {
	switch {
	case after.Vacant() && !before.Vacant() && before.Holder.ID != p.id:
		s.reached |= RevokedHeartbeat
	case !after.Vacant() && after.Holder != before.Holder && after.Epoch > 1:
		s.reached |= Rejoined
	}
}

// checkWrite checks a write to the record of an election.
func (s *sim) checkWrite(p *proc, known uint64, before, after *driver.Record) {
	name := after.Name
	switch {
	case after.Epoch < before.Epoch:
		s.fail("%s falls from epoch %d to %d", name, before.Epoch, after.Epoch)
	case after.Epoch > before.Epoch:
		if after.Epoch <= known {
			s.fail("p%d claims epoch %d of %s, but was shown %d", p.index, after.Epoch, name, known)
		}
		if after.Epoch <= s.granted[name] && s.lostAt < 0 {
			s.fail("epoch %d of %s is granted after %d", after.Epoch, name, s.granted[name])
		}
		s.granted[name] = max(s.granted[name], after.Epoch)
		if !before.Vacant() && (before.Via == "") != (after.Via == "") {
			s.reached |= TookOverMixed
		}
	case after.Vacant() && !before.Vacant() && before.Holder.ID != p.id:
		s.fail("p%d releases %s, which %s holds", p.index, name, before.Holder.ID)
	}
	sameTerm := after.Holder == before.Holder && after.Epoch == before.Epoch && !before.Vacant()
	if !bytes.Equal(after.Data, before.Data) && !sameTerm {
		s.fail("p%d writes a checkpoint of %s that is not its term's", p.index, name)
	}
}

// notify tells the others of a change of hands: late, or not at all, or without the record.
func (s *sim) notify(p *proc, before, after *driver.Record) {
	if after.Holder == before.Holder && after.Epoch == before.Epoch && after.Next == before.Next && after.Paused == before.Paused {
		return
	}
	for _, o := range s.procs {
		if o.core == nil || s.chance(s.faults.deaf) {
			continue
		}
		r := *after
		if s.chance(0.2) {
			r = driver.Record{Name: after.Name}
		}
		o.later(s.between(0, 50*time.Millisecond), func() { o.step(core.Notice{Record: r}) })
	}
}

// checkLeaders fails if two processes lead one election at once.
func (s *sim) checkLeaders() {
	if s.now < s.lostAt+2*s.cfg.LeaseDuration {
		return
	}
	for _, name := range s.names {
		var first *proc
		for _, p := range s.procs {
			if !p.leads(name) {
				continue
			}
			if first != nil && min(first.shownAt[name], p.shownAt[name]) > s.lostAt {
				s.fail("p%d and p%d lead %s at once, in epochs %d and %d", first.index, p.index, name,
					first.terms[name].epoch, p.terms[name].epoch)
			}
			first = p
		}
	}
}

// checkEnd fails if an election has no leader although everything works.
func (s *sim) checkEnd() {
	for _, name := range s.names {
		led := false
		for _, p := range s.procs {
			led = led || p.leads(name)
		}
		if !led {
			s.fail("%s has no leader %v after everything was healed: %+v", name, s.now-s.calm, s.records[name])
		}
	}
}
