package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// do carries out an action of the plan.
func (s *simulation) do(a *Action) {
	election := s.plan.Elections[a.Election]
	s.mu.Lock()
	p, procs := s.latest[a.Member], s.procs
	s.mu.Unlock()
	if a.Leader {
		for _, q := range procs {
			if q.leads(election) {
				p = q
			}
		}
	}

	if p == nil {
		return
	}

	switch a.Do {
	case DoPartition:
		s.partition(p, a.Requests, a.Answers, a.For)
	case DoFreeze:
		p.freeze(a.For)
	case DoTrap:
		s.setTrap(a, p)
	case DoAmbush:
		s.ambush(a, p)
	case DoCrash:
		s.crash(p)
		s.again(p, a.Back)
	case DoStop:
		s.say(p, "is stopped")
		p.cancel()
		s.again(p, a.Back)
	case DoTwin:
		if !p.stopped() {
			s.say(p, "gets a twin")
			twin := s.launch(s.memberOf(p))
			time.AfterFunc(a.For, func() {
				if !s.settled.Load() {
					s.say(twin, "is stopped")
					twin.cancel()
				}
			})
		}
	case DoOutage:
		s.say(nil, "the store is out of order for %v", a.For)
		s.disturb(nil, a.For, "an outage")
		s.store.Adjust(func(f *memstore.Faults) { f.Outage = true })
		time.AfterFunc(a.For, func() { s.store.Adjust(func(f *memstore.Faults) { f.Outage = false }) })
	case DoHandOff:
		to := s.plan.Members[a.Other].ID
		s.ask(p, a.For, "a handoff of "+election+" to "+to, func(ctx context.Context) error {
			return p.member.HandOff(ctx,
				election, to)
		})
	case DoStepDown:
		s.ask(p, a.For, "the leader of "+election+" to step down",
			func(ctx context.Context) error { return p.member.StepDown(ctx, election) })
	case DoPause:
		s.ask(p, a.For, "a pause of "+election,
			func(ctx context.Context) error { return p.member.Pause(ctx, election) })
		time.AfterFunc(a.For, func() {
			s.ask(p, a.For, "the end of the pause of "+election, func(ctx context.Context) error {
				return p.member.Resume(ctx,
					election)
			})
		})
	case DoSick:
		s.say(p, "is sick for %v", a.For)
		p.sick.Store(true)
		time.AfterFunc(a.For, func() { p.sick.Store(false) })
	case DoSlow:
		s.say(p, "gets slow for %v", a.For)
		s.disturb(p, a.For, "a slow network")
		w := p.plan.Config.LeaseDuration
		slow := memstore.Delay{Min: w / 50, Max: w / 3}
		p.client.Adjust(func(f *memstore.Faults) { f.Request, f.Answer = slow, slow })
		time.AfterFunc(a.For, func() {
			if !s.settled.Load() {
				p.client.Adjust(func(f *memstore.Faults) {
					f.Request, f.Answer = p.plan.Faults.Request,
						p.plan.Faults.Answer
				})
			}
		})
	case DoSnapshot:
		snap := s.snapshot()
		s.mu.Lock()
		s.snaps = append(s.snaps, snap)
		s.mu.Unlock()
	case DoRollback:
		s.rollback(a)
	case DoLose:
		s.lose(a, p)
	case DoHang:
		s.hang(a, p)
	case DoWithdraw:
		s.withdraw(a, election)
	case DoAsk:
		s.askUnderUnknown(a, p, election)
	case DoNag:
		s.crash(p)
		s.nag(election, a.For, 0)
	case DoUnreadable:
		s.unreadable(a, p, election)
	case DoPanic:
		s.panic(a, p)
	case DoReaperFreeze:
		if p.pipe != nil {
			p.pipe.freeze(a.For)
		}
	case DoReaperCrash:
		if p.pipe != nil {
			p.pipe.crash()
		}
	}
}

func (s *simulation) say(p *process, format string, args ...any) {
	s.rec.add(p, Event{Kind: Acted, Text: fmt.Sprintf(format, args...)})
}

// partition cuts a process off from the store for d.
func (s *simulation) partition(p *process, requests, answers bool, d time.Duration) {
	if s.settled.Load() || p.dead.Load() {
		return
	}

	s.say(p, "is cut off for %v, requests %t, answers %t", d, requests, answers)
	s.disturb(p, d, "a partition")
	p.client.Adjust(func(f *memstore.Faults) { f.CutRequests, f.CutAnswers = requests, answers })
	time.AfterFunc(d, func() {
		if !s.settled.Load() {
			p.client.Adjust(func(f *memstore.Faults) { f.CutRequests, f.CutAnswers = false, false })
		}
	})
}

// disturb notes that requests of a process, or of all, may go without an answer for d.
func (s *simulation) disturb(p *process, d time.Duration, why string) {
	s.rec.add(p, Event{Kind: Disturbed, Took: d, Text: why})
}

// crash ends a process at once: nothing that it does from now on reaches the store, and nobody
// hears of it.
func (s *simulation) crash(p *process) {
	if !s.settled.Load() {
		s.kill(p)
	}
}

// kill is crash at any time. A reaper hears of it.
func (s *simulation) kill(p *process) {
	if p.dead.Swap(true) {
		return
	}

	s.rec.note(p, Event{Kind: Crashed})
	p.client.Close()
	p.cancel()
	if p.pipe != nil {
		p.pipe.gone()
	}
}

// again starts a stopped process again, while there are faults.
func (s *simulation) again(p *process, back time.Duration) {
	if back < 0 {
		return
	}

	time.AfterFunc(back, func() {
		if !s.settled.Load() {
			s.relaunch(p)
		}
	})
}

// relaunch starts a process for the member of one that has ended, unless there is one.
func (s *simulation) relaunch(p *process) {
	i := s.memberOf(p)
	s.mu.Lock()
	latest := s.latest[i]
	s.mu.Unlock()
	if latest == p && s.ctx.Err() == nil {
		s.launch(i)
	}
}

func (s *simulation) memberOf(p *process) int { return int(p.id[0] - 'a') }

func (s *simulation) stepDown(p *process) {
	for _, election := range s.plan.Elections {
		if p.leads(election) {
			s.ask(p, p.plan.Config.LeaseDuration, "itself to step down from "+election,
				func(ctx context.Context) error { return p.member.StepDown(ctx, election) })
		}
	}
}

// ask lets somebody ask something of a member, if it runs, while there are faults.
func (s *simulation) ask(p *process, limit time.Duration, what string, f func(context.Context) error) {
	if !s.settled.Load() {
		s.askAnyTime(p, limit, what, f)
	}
}

// askAnyTime is ask, also when the faults have stopped.
func (s *simulation) askAnyTime(p *process, limit time.Duration, what string, f func(context.Context) error) {
	if p.stopped() || p.ctx.Err() != nil {
		return
	}

	p.aside(func() {
		p.clock.thaw(what)
		ctx, cancel := context.WithTimeout(context.WithValue(p.ctx, asAdmin{}, true), limit)
		defer cancel()
		began := time.Now()
		idles := p.idles.Load()
		s.say(p, "is asked for %s", what)
		err := f(ctx)
		last := p.runs.Load() == 0 || p.idles.Load() != idles // it may have had to wait until the member has left
		if over := time.Since(began) - limit; over > 0 && p.ctx.Err() == nil && !last {
			s.rec.add(p, Event{Kind: Answered, Took: over, Text: what})
		}

		if err != nil {
			s.say(p, "was asked for %s: %v", what, err)
		}
	})
}

// rollback lets the store go back, at a moment when those who are there can know of it.
func (s *simulation) rollback(a *Action) {
	var snap snapshot
	text := "to nothing"
	if !a.Flush && len(s.snaps) > 0 {
		snap, text = s.snaps[len(s.snaps)-1], "to the last snapshot"
	}

	for range 40 {
		if s.knowable(snap) {
			break
		}

		time.Sleep(a.For/40 + s.plan.Members[0].Config.LeaseDuration/20)
	}

	if !s.knowable(snap) || s.settled.Load() {
		return
	}

	s.rec.add(nil, Event{Kind: Rolled, Text: text})
	s.store.Rollback(snap.saved)
}

// snapshot is what the store held, and a copy that can be read.
type snapshot struct {
	saved  memstore.Snapshot
	leases map[string]driver.Record
}

func (s *simulation) snapshot() snapshot {
	s.mu.Lock()
	leases := maps.Clone(s.regs)
	s.mu.Unlock()
	return snapshot{s.store.Snapshot(), leases}
}

// knowable reports whether those who live would notice a rollback before they act on it. Everybody
// must have seen the highest epoch of every election; and each election must show a lower one then, unless
// no incarnation is undone: a claim under an incarnation which the store has forgotten, and which
// nobody else has seen, tells nobody anything. And nothing may be on its way to a register that was
// never written: after a flush it would fit again, against which nothing helps but a fence. Nor may
// it undo heartbeats in a way that somebody takes for an edit: see misses.
func (s *simulation) knowable(snap snapshot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.start)-time.Duration(s.rec.fresh.Load()) < s.plan.Late {
		return false
	}

	same := true
	for name, l := range s.regs {
		same = same && (!isMember(name) || snap.leases[name].Holder == l.Holder)
	}

	for _, election := range s.plan.Elections {
		epoch := s.claims[election]
		if !same && snap.leases[election].Epoch >= epoch {
			return false
		}

		for _, p := range s.procs {
			p.mu.Lock()
			knows := p.knows[election]
			p.mu.Unlock()
			if knows < epoch && !p.stopped() {
				return false
			}
		}
	}

	return !slices.ContainsFunc(s.procs, func(p *process) bool { return !p.stopped() && p.misses(s.regs, snap.leases) })
}

// misses reports whether a rollback would undo heartbeats that the process has not seen, and make it
// take the record that comes back for an edit of the one that it has seen last. An edit gives a
// holder no time, so the process would count from before the lost heartbeats, in which the holder
// still believes until its next one is refused. GUARANTEES documents that limit. If another holder,
// or none, is undone, the epochs tell, or nobody believes any more.
func (p *process) misses(now, then map[string]driver.Record) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, h := range p.heights {
		back, last := then[name], h.last
		edited := back.Holder == last.Holder && back.Nonce == last.Nonce && back.Edits > last.Edits
		if edited && !back.Vacant() && now[name].Holder == back.Holder && now[name].Nonce != back.Nonce {
			return true
		}
	}

	return false
}
