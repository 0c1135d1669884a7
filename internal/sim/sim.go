// Package sim runs members of the root package against each other in virtual time, over the store in memory, with clocks that disagree,
// processes that freeze, crash and come back, and a network that loses, delays and cuts, all of it drawn from a seed; it writes down what
// crosses the store, what duties do and what members say of themselves; and it checks that history against what Regent promises.
//
// It assumes a [testing/synctest] bubble, and the code under test as it is: there are no hooks in it. It does not prove anything, it looks where
// trouble is likely. A seed repeats itself as far as the order of goroutines that run at one instant does not matter, so replaying one
// tries it again until it shows what it has shown before.
//
//	go test ./internal/sim                                    2,000 seeds, and that each rule switched off is found out
//	REGENT_SEEDS=100000 go test -timeout 0 -run TestSeeds ./internal/sim    any number of seeds
//	REGENT_SEED=7 go test -v -run TestSeeds ./internal/sim                  one seed, with its timeline
package sim

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent"
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
	calm    atomic.Bool
	snaps   []snapshot

	mu     sync.Mutex
	procs  []*process
	latest []*process        // by member
	claims map[string]uint64 // the highest epoch ever claimed, by seat
	regs   map[string]regent.Lease
}

// Run carries a plan out, in a bubble, and returns what happened. All that it started has stopped then.
func Run(plan *Plan) *History {
	s := &simulation{plan: plan, start: time.Now(), store: memstore.New(), latest: make([]*process, len(plan.Members)), claims: map[string]uint64{},
		regs: map[string]regent.Lease{}}
	s.rec = newRecorder(s.start)
	s.store.OnSwap = s.applied
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
	s.store.Close()
	h := &History{Seed: plan.Seed, Class: plan.Class, Seats: plan.Seats, Bound: plan.Bound, Events: s.rec.events}
	for _, p := range s.procs {
		c := p.plan.Config
		h.Procs = append(h.Procs, Proc{ID: p.id, Rate: p.clock.rate, Lease: c.LeaseDuration, Trust: trust(c.LeaseDuration, c.StopTimeout),
			Stop: c.StopTimeout, Delay: c.TakeoverDelay, Jitter: c.StartupJitterMin, Own: c.OwnLease,
			Witness: p.plan.Hints && p.plan.Witness})
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
	if s.calm.Load() {
		faults = quietened(faults)
	}
	p := &process{sim: s, rec: s.rec, index: index, id: m.ID, plan: m, done: make(chan struct{}),
		clock:  &clock{start: s.start, rate: m.Rate, offset: m.Offset},
		client: s.store.Client(name, faults),
		seen:   map[string][]sighting{}, told: map[string]uint64{}, knows: map[string]uint64{}}
	p.ctx, p.cancel = context.WithCancel(s.ctx)
	w := &wire{p: p, client: p.client, direct: s.store.Client(name, memstore.Faults{})}
	p.member = &regent.Member{Store: w, ID: m.ID, Addr: m.ID + ":1", Config: m.Config, Clock: p.clock}
	switch {
	case m.Hints && m.Witness:
		p.member.Store = witnessed{pushed{w}}
	case m.Hints:
		p.member.Store = pushed{w}
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

// applied is told of every swap, in the store's order and under its lock. When a seat has been claimed, everybody is asked at that very
// moment whether they lead it.
func (s *simulation) applied(old, l regent.Lease, client string) {
	var p *process
	s.mu.Lock()
	procs := s.procs
	if i, err := strconv.Atoi(client); err == nil {
		p = procs[i]
	}
	s.regs[l.Name] = l
	claimed := !isMember(l.Name) && !l.Vacant() && l.Holder != old.Holder
	if claimed {
		s.claims[l.Name] = max(s.claims[l.Name], l.Epoch)
	}
	s.mu.Unlock()
	s.rec.applied(p, old, l)
	if claimed {
		for _, other := range procs {
			if other != p {
				other.look(l.Name)
			}
		}
	}
}

// quietened is a network as good as it gets: with delays, and nothing lost but hints.
func quietened(f memstore.Faults) memstore.Faults {
	return memstore.Faults{Seed: f.Seed, Request: atMost20ms(f.Request), Answer: atMost20ms(f.Answer), HintDelay: atMost20ms(f.HintDelay), LoseHint: f.LoseHint}
}

func atMost20ms(d memstore.Delay) memstore.Delay {
	const most = 20 * time.Millisecond
	return memstore.Delay{Min: min(d.Min, most/2), Max: min(d.Max, most)}
}

// settle ends all faults and waits until every seat has had a leader for a while, or the time for that is over.
func (s *simulation) settle() {
	s.calm.Store(true)
	s.store.SetFaults(memstore.Faults{})
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
		p.client.SetFaults(quietened(p.plan.Faults))
	}
	s.resume()
	s.rec.add(nil, Event{Kind: Calm})
	step := s.plan.Members[0].Config.LeaseDuration / 8
	steady := 0
	for range (s.plan.Late + s.plan.Bound) / step {
		time.Sleep(step)
		s.resume() // somebody's pause may have been on its way
		if all := s.lookAll(); !all {
			steady = 0
		} else if steady++; steady > 8 {
			break
		}
	}
	for _, seat := range s.plan.Seats {
		led := false
		for _, p := range procs {
			if p.leads(seat) {
				led = true
				t, _ := p.member.Leads(seat)
				s.rec.add(p, Event{Kind: Led, Name: seat, Epoch: t.Epoch})
			}
		}
		if !led {
			s.rec.add(nil, Event{Kind: Led, Name: seat})
		}
	}
}

// lookAll asks everybody, and reports whether every seat has a leader.
func (s *simulation) lookAll() bool {
	s.mu.Lock()
	procs := s.procs
	s.mu.Unlock()
	all := true
	for _, seat := range s.plan.Seats {
		led := false
		for _, p := range procs {
			p.look(seat)
			led = led || p.leads(seat)
		}
		all = all && led
	}
	return all
}

// resume ends every pause, as somebody with a good connection would.
func (s *simulation) resume() {
	for _, seat := range s.plan.Seats {
		for {
			l, err := s.store.Get(s.ctx, seat)
			if err != nil || !l.Paused {
				break
			}
			l.Paused = false
			_, _ = s.store.Swap(s.ctx, l)
		}
	}
}
