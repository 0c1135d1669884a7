package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/regentd/regent/memstore"
)

// hang makes the store stand still, or one process's way to it: nothing is answered, and nothing
// fails.
func (s *simulation) hang(a *Action, p *process) {
	if a.Requests {
		s.say(nil, "the store hangs for %v, drops %t", a.For, a.Flush)
		s.disturb(nil, a.For, "a hung store")
		s.reach(HungStore)
		s.store.Hang()
		time.AfterFunc(a.For, func() { resume(s.store, a.Flush) })
		return
	}

	s.say(p, "hangs for %v, drops %t", a.For, a.Flush)
	s.disturb(p, a.For, "a client that hangs")
	s.reach(HungClient)
	p.client.Hang()
	time.AfterFunc(a.For, func() { resume(p.client, a.Flush) })
}

// resume lets what hangs go on.
func resume(what interface {
	Resume()
	Drop()
}, drop bool) {
	if drop {
		what.Drop()
	} else {
		what.Resume()
	}
}

// withdraw has a candidate withdraw while its claim is under way, and stand again soon. What it
// gives back is late.
func (s *simulation) withdraw(a *Action, election string) {
	s.mu.Lock()
	procs := s.procs
	s.mu.Unlock()
	for _, p := range procs {
		if p.stopped() || p.plan.Idle {
			continue
		}

		if p.leads(election) {
			s.stepDown(p)
			continue
		}

		s.say(p, "is to withdraw from %s at its next claim", election)
		t := a.Trap
		p.set(&trap{on: Claim, election: election, loseAnswer: true, timeout: t.timeout, then: func() {
			s.reach(Withdrawn)
			p.set(&trap{on: Release, election: election, late: t.late, timeout: t.timeout, cutAfter: 1, cut: t.cut,
				cutsRequests: true, cutsAnswers: true})
			time.AfterFunc(t.timeout/2, func() { p.withdraw(election) })
		}})
	}
}

// askUnderUnknown lets a member ask a leader for something while that does not know what became of
// its heartbeat.
func (s *simulation) askUnderUnknown(a *Action, leader *process, election string) {
	s.mu.Lock()
	asker, to := s.latest[a.Member], s.plan.Members[a.Other].ID
	s.mu.Unlock()
	if asker == nil || asker == leader || !leader.leads(election) {
		return
	}

	s.say(leader, "is to be asked for something at its next heartbeat")
	t := a.Trap
	limit := 3 * s.plan.Members[0].Config.LeaseDuration
	t.then = func() {
		time.AfterFunc(t.timeout/20, func() {
			switch {
			case a.Answers:
				s.ask(asker, limit, "the leader of "+election+" to step down", func(ctx context.Context) error {
					return s.obeyed(asker.member.StepDown(ctx, election))
				})
			case a.Requests:
				s.ask(asker, limit, "a handoff of "+election+" to "+to, func(ctx context.Context) error {
					return s.obeyed(asker.member.HandOff(ctx, election, to))
				})
			default:
				s.ask(asker, limit, "a pause of "+election,
					func(ctx context.Context) error { return asker.member.Pause(ctx, election) })
			}
		})
	}

	leader.set(&t)
}

func (s *simulation) obeyed(err error) error {
	if err == nil {
		s.reach(ObeyedUnknown)
	}

	return err
}

// nag asks a dead leader again and again to make way, until another one leads.
func (s *simulation) nag(election string, every time.Duration, n int) {
	if s.ctx.Err() != nil {
		return
	}

	s.mu.Lock()
	l := s.regs[election]
	procs := s.procs
	s.mu.Unlock()
	holder := s.rec.owner(l.Holder.Incarnation, -1)
	switch {
	case l.Vacant(), holder < 0, !procs[holder].dead.Load():
		if n > 1 {
			s.reach(Nagged)
		}

		return
	}

	i := slices.IndexFunc(procs, func(p *process) bool { return !p.stopped() && p.ctx.Err() == nil })
	if i >= 0 {
		p := procs[i]
		s.askAnyTime(p, every, "the dead leader of "+election+" to make way", func(ctx context.Context) error {
			if n%2 == 0 {
				return p.member.StepDown(ctx, election)
			}

			return p.member.HandOff(ctx, election, p.id)
		})
	}

	time.AfterFunc(every, func() { s.nag(election, every, n+1) })
}

// unreadable spoils a register: an election's, or the heartbeat of its leader.
func (s *simulation) unreadable(a *Action, p *process, election string) {
	name := election
	if a.Requests && a.For != never {
		name = "regent/member/" + p.id
	}

	s.say(nil, "%s is unreadable for %v", name, a.For)
	s.disturb(nil, min(a.For, s.plan.Faulty), "an unreadable register")
	s.mu.Lock()
	s.bad[name]++
	s.mu.Unlock()
	s.spoil()
	if a.For == never {
		return
	}

	time.AfterFunc(a.For, func() {
		s.mu.Lock()
		if s.bad[name]--; s.bad[name] <= 0 {
			delete(s.bad, name)
		}

		s.mu.Unlock()
		s.spoil()
	})
}

// spoil tells the store which registers are unreadable.
func (s *simulation) spoil() {
	s.mu.Lock()
	names := sortedKeys(s.bad)
	s.mu.Unlock()
	s.store.SetUnreadable(names...)
}

// readable ends what spoils registers, but for the election that stays unreadable to the end.
func (s *simulation) readable() {
	s.mu.Lock()
	clear(s.bad)
	if i := s.plan.Unreadable; i >= 0 {
		s.bad[s.plan.Elections[i]] = 1
	}

	s.mu.Unlock()
	s.spoil()
}

// panic has a driver panic at a request. Some heartbeats panic while a claim of the process is
// under way, which is applied and answered after the member has given it up.
func (s *simulation) panic(a *Action, p *process) {
	t := a.Trap
	if t.on == Beat && a.Other%2 == 0 {
		s.mu.Lock()
		procs := s.procs
		s.mu.Unlock()
		for _, q := range procs {
			if q.stopped() {
				continue
			}

			q.set(&trap{
				on:      Claim,
				request: max(t.request, q.requestTimeout()/2),
				answer:  q.requestTimeout(),
				deaf:    true,
				then:    func() { q.set(&t) },
			})
		}

		s.stepDown(p)
		return
	}

	s.say(p, "is to have a driver that panics at a %s", t.on)
	p.set(&t)
	if t.on == Release { // so that there is one
		s.stepDown(p)
	}
}

// logged is how many swaps the store can undo.
const logged = 400

// shards is over how many servers the registers are spread.
const shards = 3

// lose makes the store lose its last writes, now or soon after the next claim of the election.
func (s *simulation) lose(a *Action, p *process) {
	if a.OnClaim {
		s.mu.Lock()
		s.armed = append(s.armed, a)
		s.mu.Unlock()
		return
	}

	s.loseNow(a)
}

// strike sets off what waits for a claim of an election. The mutex is held.
func (s *simulation) strike(election string) {
	s.armed = slices.DeleteFunc(s.armed, func(a *Action) bool {
		if s.plan.Elections[a.Election] != election {
			return false
		}

		time.AfterFunc(a.For, func() { s.loseNow(a) })
		return true
	})
}

func (s *simulation) loseNow(a *Action) {
	if s.settled.Load() {
		return
	}

	election := s.plan.Elections[a.Election]
	s.rec.add(nil, Event{Kind: Rolled, Text: "by " + a.Loss.String() + ", beyond the last claim of " + election})
	s.mu.Lock()
	via := s.regs[election].Via
	s.losing = map[Loss]State{LoseRegister: GhostOneLost, LoseHeartbeat: GhostOneLost, LoseTail: GhostTail,
		LoseShard: GhostShard, LoseAll: GhostTail}[a.Loss]
	s.mu.Unlock()
	switch a.Loss {
	case LoseRegister:
		s.undo(election, func(name string) bool { return name == election })
	case LoseTail:
		s.undo(election, func(string) bool { return true })
	case LoseShard:
		shard := memstore.Shard(election, shards)
		s.undo(election, func(name string) bool { return memstore.Shard(name, shards) == shard })
	case LoseHeartbeat:
		if via != "" {
			s.undo(via, func(name string) bool { return name == via })
		}
	case LoseAll:
		s.mu.Lock()
		s.trail = nil
		snap := s.snaps[0]
		s.mu.Unlock()
		s.store.Restore(snap.saved)
	}

	if a.Again > 0 {
		again := *a
		again.Again = 0
		time.AfterFunc(a.Again, func() { s.loseNow(&again) })
	}
}

// undo undoes the last swaps of some registers, as many as it takes to undo the last claim of a
// election, or join of a member.
func (s *simulation) undo(register string, of func(string) bool) {
	s.mu.Lock()
	n, found := 0, false
	for i := len(s.trail) - 1; i >= 0 && !found; i-- {
		if w := s.trail[i]; of(w.name) {
			n++
			found = w.turn && w.name == register
		}
	}

	s.mu.Unlock()
	if found && n <= logged {
		s.undoLast(n, of)
	}
}

// undoLast undoes the last n swaps of some registers.
func (s *simulation) undoLast(n int, of func(string) bool) {
	s.mu.Lock()
	for i, left := len(s.trail)-1, n; i >= 0 && left > 0; i-- {
		if of(s.trail[i].name) {
			left--
			s.trail = slices.Delete(s.trail, i, i+1)
		}
	}

	s.mu.Unlock()
	s.store.Undo(n, of)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
