// Package sim runs members of the root package against each other in virtual time, over the store
// in memory, with clocks that disagree, processes that freeze, crash and come back, and a network
// that loses, delays and cuts, all of it drawn from a seed; it writes down what crosses the store,
// what duties do and what members say of themselves; and it checks that history against what Regent
// promises.
//
// It assumes a [testing/synctest] bubble, and the code under test as it is: there are no hooks in
// it. It does not prove anything: it searches where faults are likely. A seed repeats itself as far as
// the order of goroutines that run at one instant does not matter, so replaying one tries it again
// until it shows what it has shown before.
//
//	go test ./internal/sim                                  2,000 seeds, and that each rule switched off is found out
//	REGENT_SEEDS=100000 go test -timeout 0 -run TestSeeds ./internal/sim    any number of seeds
//	REGENT_SEED=7 go test -v -run TestSeeds ./internal/sim                  one seed, with its timeline
package sim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// simulation is one run of a plan.
type simulation struct {
	plan    *Plan
	start   time.Time
	store   *memstore.Store
	rec     *recorder
	ctx     context.Context
	workers [workers]workplace
	settled atomic.Bool
	over    atomic.Bool // every process has stopped
	snaps   []snapshot

	reaps sync.WaitGroup // of reapers

	mu      sync.Mutex
	procs   []*process
	latest  []*process        // by member
	claims  map[string]uint64 // the highest epoch ever claimed, by election
	regs    map[string]driver.Record
	trail   []write                  // the swaps that were applied and not undone, oldest first
	undone  map[string]bool          // registers that a rollback has changed
	given   map[electionEpoch]string // the incarnation that an epoch was first given to
	armed   []*Action                // what happens after the next claim
	bad     map[string]int           // registers that are unreadable
	clients []*memstore.Client       // of reapers
	losing  State                    // what a rollback that is under way leads to

	reachedMu sync.Mutex
	reached   map[State]int
}

// write is a swap that was applied.
type write struct {
	name string
	turn bool // a claim or a join
}

type electionEpoch struct {
	election string
	epoch    uint64
}

// Run carries a plan out, in a bubble, and returns what happened. All that it started has stopped
// then.
func Run(plan *Plan) *History {
	s := &simulation{plan: plan, start: time.Now(), store: memstore.New(), latest: make([]*process,
		len(plan.Members)), claims: map[string]uint64{},
		regs: map[string]driver.Record{}, undone: map[string]bool{}, given: map[electionEpoch]string{},
		bad:     map[string]int{},
		reached: map[State]int{}}

	s.rec = newRecorder(s.start)
	s.store.OnSwap = s.applied
	s.store.OnRollback = s.rolledBack
	if plan.Class == Lossy {
		s.store.KeepLog(logged)
	}

	ctx, cancel := context.WithCancel(context.Background())
	s.ctx = ctx
	for i, m := range plan.Members {
		time.AfterFunc(m.Start+time.Duration(i), func() { s.launch(i) })
	}

	for i, a := range plan.Actions {
		time.Sleep(a.At + time.Duration(i) - time.Since(s.start))
		s.do(&a)
	}

	time.Sleep(plan.Faulty + time.Second - time.Since(s.start))
	s.settle()
	cancel()
	for _, p := range s.procs {
		<-p.done
	}

	s.over.Store(true)
	s.reaps.Wait()
	s.store.Close()
	h := &History{Seed: plan.Seed, Class: plan.Class, Elections: plan.Elections, Bound: plan.Bound,
		Events: s.rec.events, Reached: s.reached}
	for _, p := range s.procs {
		c := p.plan.Config
		h.Procs = append(h.Procs, Proc{ID: p.id, Rate: p.clock.rate, Lease: c.LeaseDuration,
			Trust: trust(c.LeaseDuration, c.StopTimeout),
			Stop:  c.StopTimeout, Delay: c.TakeoverDelay, Jitter: c.StartupJitterMin, Own: c.OwnLease,
			Witness: p.plan.Notices && p.plan.Witness, Stalls: p.plan.Duty.Outlive > 0, Pipe: p.plan.Pipe,
			Spins: p.clock.spins})
	}

	return h
}

// launch starts a process for a member: another one if one runs already.
func (s *simulation) launch(member int) *process {
	m := &s.plan.Members[member]
	s.mu.Lock()
	index := len(s.procs)
	name := strconv.Itoa(index)
	faults := m.Faults
	if s.settled.Load() {
		faults = quietened(faults)
	}

	p := &process{sim: s, rec: s.rec, index: index, id: m.ID, plan: m, done: make(chan struct{}),
		clock:  &clock{start: s.start, rate: m.Rate, offset: m.Offset},
		client: s.store.Client(name, faults),
		seen:   map[string][]sighting{}, reported: map[string]uint64{}, knows: map[string]uint64{},
		heights:   map[string]*height{},
		forgotten: map[string]time.Duration{}, endSeen: map[string]time.Duration{},
		leave: map[string]context.CancelFunc{}, holds: map[string]*holding{}}

	p.ctx, p.cancel = context.WithCancel(s.ctx)
	w := &wire{p: p, client: p.client, direct: s.store.Client(name, memstore.Faults{})}
	p.member = &regent.Member{Store: w, ID: m.ID, Addr: m.ID + ":1", Config: m.Config, Clock: p.clock}
	switch {
	case m.Notices && m.Witness:
		p.member.Store = witnessed{pushed{w}}
	case m.Notices:
		p.member.Store = pushed{w}
	}

	if m.Reaper {
		p.pipe = newPipe(p, m.Pipe)
		p.member.OnLifeline = p.pipe.report
	}

	if m.Health {
		p.member.Health = func(context.Context) error {
			if p.sick.Load() {
				return fmt.Errorf("%s is sick", m.ID)
			}

			return nil
		}
	}

	s.procs = append(s.procs, p)
	s.latest[member] = p
	s.mu.Unlock()
	p.start()
	return p
}

func (s *simulation) process(i int) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.procs[i]
}

// applied gets every swap, in the store's order and under its lock. When an election has been
// claimed, everybody is asked at that very moment whether they lead it.
func (s *simulation) applied(old, l driver.Record, client string) {
	var p *process
	s.mu.Lock()
	procs := s.procs
	name, reaper := strings.CutPrefix(client, reaperName)
	if i, err := strconv.Atoi(name); err == nil {
		p = procs[i]
	}

	s.regs[l.Name] = l
	claimed := !isMember(l.Name) && !l.Vacant() && l.Holder != old.Holder
	if claimed {
		s.claims[l.Name] = max(s.claims[l.Name], l.Epoch)
		s.noteEpoch(l)
		s.strike(l.Name)
	}

	if s.plan.Class == Lossy {
		s.trail = append(s.trail, write{l.Name, !l.Vacant() && l.Holder != old.Holder})
	}

	s.mu.Unlock()
	if reaper {
		s.reach(ReaperRelease)
	}

	s.rec.applied(p, reaper, old, l)
	if claimed {
		for _, other := range procs {
			if other != p {
				other.noteLeaders(l.Name)
			}
		}
	}
}

// noteEpoch notes that an epoch was given. The mutex is held.
func (s *simulation) noteEpoch(l driver.Record) {
	key := electionEpoch{l.Name, l.Epoch}
	if first, ok := s.given[key]; ok && first != l.Holder.Incarnation {
		s.reach(SameEpochTwice)
	}

	s.given[key] = l.Holder.Incarnation
}

// quietened is a network as good as it gets: with delays, and nothing lost but notices.
func quietened(f memstore.Faults) memstore.Faults {
	return memstore.Faults{Seed: f.Seed, Request: atMost20ms(f.Request), Answer: atMost20ms(f.Answer),
		NoticeDelay: atMost20ms(f.NoticeDelay), LoseNotice: f.LoseNotice}
}

func atMost20ms(d memstore.Delay) memstore.Delay {
	const most = 20 * time.Millisecond
	return memstore.Delay{Min: min(d.Min, most/2), Max: min(d.Max, most)}
}

// settle ends all faults and waits until every election has had a leader for a while, or the time for
// that is over.
func (s *simulation) settle() {
	s.settled.Store(true)
	s.store.SetFaults(memstore.Faults{})
	s.store.Resume()
	s.readable()
	for i := range s.plan.Members {
		s.mu.Lock()
		p := s.latest[i]
		s.mu.Unlock()
		if p == nil || p.stopped() || p.ctx.Err() != nil {
			if i%2 == 0 || s.plan.Class == Rollback { // some never come back
				s.launch(i)
			}
		}
	}

	s.mu.Lock()
	procs := s.procs
	s.mu.Unlock()
	for _, p := range procs {
		p.sick.Store(false)
		p.client.Resume()
		p.client.SetFaults(quietened(p.plan.Faults))
	}

	s.mu.Lock()
	for _, c := range s.clients {
		c.SetFaults(memstore.Faults{})
	}

	s.mu.Unlock()
	s.resume()
	s.rec.add(nil, Event{Kind: Settled})
	step := s.plan.Members[0].Config.LeaseDuration / 8
	steady, enough := 0, 8
	if s.plan.Class == Lossy {
		enough = 16 // for a lost claim to be found
	}

	for range (s.plan.Late + s.plan.Bound) / step {
		time.Sleep(step)
		s.resume() // somebody's pause may have been on its way
		if all := s.lookAll(); !all {
			steady = 0
		} else if steady++; steady > enough && !s.owing() {
			break
		}
	}

	s.mu.Lock()
	procs = s.procs // some may have started since the faults stopped
	s.mu.Unlock()
	for i, election := range s.plan.Elections {
		if i == s.plan.Unreadable {
			continue
		}

		led := false
		for _, p := range procs {
			if p.leads(election) {
				led = true
				t, _ := p.member.Leads(election)
				s.rec.add(p, Event{Kind: Led, Name: election, Epoch: t.Epoch, Who: t.Incarnation})
			}
		}

		if led && s.plan.Unreadable >= 0 {
			s.reach(Unreadable)
		}

		if !led {
			s.rec.add(nil, Event{Kind: Led, Name: election})
		}
	}
}

// lookAll asks everybody, and reports whether every election has a leader.
func (s *simulation) lookAll() bool {
	s.mu.Lock()
	procs := s.procs
	s.mu.Unlock()
	all := true
	for i, election := range s.plan.Elections {
		led := i == s.plan.Unreadable
		for _, p := range procs {
			p.noteLeaders(election)
			led = led || p.leads(election)
		}

		all = all && led
	}

	return all
}

// owing reports whether a leader has been asked to make way and has not yet.
func (s *simulation) owing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, election := range s.plan.Elections {
		l := s.regs[election]
		i := s.rec.owner(l.Holder.Incarnation, -1)
		if l.Next != "" && l.Next != l.Holder.ID && i >= 0 && s.procs[i].leads(election) {
			return true
		}
	}

	return false
}

// resume ends every pause, as somebody with a good connection would.
func (s *simulation) resume() {
	for _, election := range s.plan.Elections {
		for {
			l, err := s.store.Get(s.ctx, election)
			if err != nil || !l.Paused {
				break
			}

			l.Paused = false
			_, _ = s.store.Swap(s.ctx, l)
		}
	}
}
