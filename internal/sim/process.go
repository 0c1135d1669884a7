package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

// process is one run of a member, from its start to its end or its crash. Another of the same ID is another process.
type process struct {
	sim    *simulation
	rec    *recorder
	index  int
	id     string
	plan   *MemberPlan
	clock  *clock
	client *memstore.Client
	member *regent.Member

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // its campaigns
	asks   sync.WaitGroup // what it was asked for
	done   chan struct{}
	dead   atomic.Bool
	sick   atomic.Bool
	asked  atomic.Bool // it has sent a request

	mu    sync.Mutex
	seen  map[string][]sighting
	traps []*trap
	told  map[string]uint64 // the last term without a duty that it was seen to hold
	knows map[string]uint64 // the highest epoch that it must remember
}

// freeze stops the process for d, but not beyond the time of faults.
func (p *process) freeze(d time.Duration) {
	d = min(d, p.sim.plan.Faulty-time.Since(p.sim.start))
	if d <= 0 || p.dead.Load() {
		return
	}
	p.rec.add(p, Event{Kind: Frozen, Took: d})
	p.clock.freeze(d)
}

// asAdmin marks a request that somebody makes through a member, and not the member itself: it need not wait for the jitter.
type asAdmin struct{}

// start begins the process's campaign for every seat.
func (p *process) start() {
	p.rec.add(p, Event{Kind: Started, Text: fmt.Sprintf("as %s, rate %.4f", p.id, p.clock.rate)})
	if p.plan.Idle {
		duties := make([]regent.Duty, len(p.sim.plan.Seats))
		for i, seat := range p.sim.plan.Seats {
			duties[i].Election = seat
		}
		p.wg.Go(func() { _ = p.member.Run(p.ctx, duties...) })
	} else {
		for i, seat := range p.sim.plan.Seats {
			p.wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Microsecond) // at one instant they would come in any order
				p.campaign(seat)
			})
		}
	}
	if p.plan.Watch { // so that it does not stop when its last campaign ends
		p.wg.Go(func() {
			for range p.member.Watch(p.ctx, p.sim.plan.Seats[0]) {
			}
		})
	}
	go func() {
		p.wg.Wait()
		p.asks.Wait()
		p.rec.add(p, Event{Kind: Done})
		close(p.done)
	}()
}

// campaign leads a seat until the process stops. A duty that returns of its own accord ends the campaign, and the next begins later.
func (p *process) campaign(seat string) {
	g := p.rand(seat, 0)
	for p.ctx.Err() == nil {
		err := p.member.Lead(p.ctx, seat, p.duty)
		if p.ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, errBored) && !errors.Is(err, regent.ErrPanicked) {
			panic(fmt.Sprintf("seed %d: Lead returned %v", p.sim.plan.Seed, err))
		}
		sleep(p.ctx, between(g, 0, p.plan.Config.LeaseDuration))
	}
}

func (p *process) rand(seat string, epoch uint64) *rand.Rand {
	h := p.sim.plan.Seed*1000003 + uint64(p.index)
	for _, c := range []byte(seat) {
		h = h*131 + uint64(c)
	}
	return rand.New(rand.NewPCG(h, epoch))
}

var errBored = errors.New("the duty has had enough")

// duty is the work of a leader. It says at every step whether it believes in its term, and sends work either way if it is of the kind that
// does not ask. When told to stop it takes its time over it, but less than the stop timeout, unless it is stuck.
func (p *process) duty(ctx context.Context, t regent.Term) error {
	g := p.rand(t.Election, t.Epoch)
	p.rec.add(p, Event{Kind: Granted, Name: t.Election, Epoch: t.Epoch, Valid: true})
	defer p.rec.add(p, Event{Kind: Ended, Name: t.Election, Epoch: t.Epoch})
	d := p.plan.Duty
	bored := never
	if g.Float64() < d.Bored {
		bored = time.Since(p.sim.start) + between(g, 0, 4*p.plan.Config.LeaseDuration)
	}
	for ctx.Err() == nil {
		p.act(g, t, false)
		if g.Float64() < d.Save {
			_ = t.Save(ctx, fmt.Append(nil, p.index, t.Epoch, g.Uint32()))
			continue
		}
		if time.Since(p.sim.start) > bored {
			if g.Float64() < 0.3 {
				panic(errBored)
			}
			return errBored
		}
		p.tick(ctx, between(g, d.Tick/2, d.Tick))
	}
	stop := between(g, 0, p.plan.Config.StopTimeout*9/10)
	stuck := g.Float64() < d.Stuck
	if stuck {
		stop = between(g, p.plan.Config.StopTimeout, 4*p.plan.Config.StopTimeout)
	}
	for until := p.clock.Now() + stop; ; {
		p.act(g, t, stuck)
		left := until - p.clock.Now()
		if left <= 0 {
			return nil
		}
		p.tick(context.Background(), min(left, stop/4+1))
	}
}

// tick waits on the process's own clock.
func (p *process) tick(ctx context.Context, d time.Duration) {
	t := p.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	p.clock.thaw("tick")
}

// act sends work.
func (p *process) act(g *rand.Rand, t regent.Term, stuck bool) {
	valid := t.Valid()
	p.rec.add(p, Event{Kind: Acting, Name: t.Election, Epoch: t.Epoch, Valid: valid, Stuck: stuck})
	worker, delay := g.IntN(workers), p.plan.Duty.Work
	if valid || p.plan.Duty.Trusting {
		p.sim.send(p, worker, t.Election, t.Token(), between(g, delay/100, delay))
	}
}

// look notes which seats the process says it leads: at the very moment when another claims one, and now and then.
func (p *process) look(seat string) {
	if p.dead.Load() {
		return
	}
	t, ok := p.member.Leads(seat)
	if !ok {
		return
	}
	if p.plan.Idle {
		p.mu.Lock()
		news := p.told[seat] != t.Epoch
		p.told[seat] = t.Epoch
		p.mu.Unlock()
		if news {
			p.rec.add(p, Event{Kind: Granted, Name: seat, Epoch: t.Epoch})
		}
	}
	p.rec.add(p, Event{Kind: Believed, Name: seat, Epoch: t.Epoch})
}

func (p *process) leads(seat string) bool {
	_, ok := p.member.Leads(seat)
	return ok && !p.dead.Load()
}

// stopped reports whether the process has ended.
func (p *process) stopped() bool {
	select {
	case <-p.done:
		return true
	default:
		return p.dead.Load()
	}
}
