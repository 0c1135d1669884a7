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

// process is one run of a member, from its start to its end or its crash. Another of the same ID is
// another process.
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
	asked  atomic.Bool  // it has sent a request
	runs   atomic.Int32 // its calls of Lead that have not returned
	idles  atomic.Int32 // how often the last of them has
	pipe   *pipe        // to its reaper; nil if it has none

	mu        sync.Mutex
	seen      map[string][]sighting
	traps     []*trap
	reported  map[string]uint64 // the last term without a duty that it was seen to hold
	knows     map[string]uint64 // the highest epoch that it must remember
	ended     bool              // its campaigns are over, and it is asked for nothing any more
	heights   map[string]*height
	forgotten map[string]time.Duration // incarnations that a register has forgotten, and when it was first seen
	// incarnations whose end a register has shown, and when that request was sent
	endSeen map[string]time.Duration
	// when a record was first received that names an incarnation as the holder of an election
	met   map[claimant]time.Duration
	leave map[string]context.CancelFunc // ends its campaign for an election
	holds map[string]*holding           // the terms that it was granted last, by election
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

// asAdmin marks a request that somebody makes through a member, and not the member itself: it need
// not wait for the jitter.
type asAdmin struct{}

// start begins the process's campaign for every election.
func (p *process) start() {
	p.rec.add(p, Event{Kind: Started, Text: fmt.Sprintf("as %s, rate %.4f", p.id, p.clock.rate)})
	if p.plan.Idle {
		duties := make([]regent.Duty, len(p.sim.plan.Elections))
		for i, election := range p.sim.plan.Elections {
			duties[i].Election = election
		}

		p.wg.Go(func() {
			err := p.member.Run(p.ctx, duties...)
			if p.ctx.Err() == nil {
				p.rec.add(p, Event{Kind: Died, Text: fmt.Sprint(err)})
			}
		})
	} else {
		for i, election := range p.sim.plan.Elections {
			p.wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Microsecond) // at one instant they would come in any order
				p.campaign(election)
			})
		}
	}

	if p.plan.Watch { // so that it does not stop when its last campaign ends
		p.wg.Go(func() {
			for range p.member.Watch(p.ctx, p.sim.plan.Elections[0]) {
			}
		})
	}

	go func() {
		p.wg.Wait()
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		p.asks.Wait()
		p.rec.add(p, Event{Kind: Done})
		close(p.done)
	}()
}

// campaign leads an election until the process stops. A duty that returns of its own accord ends the
// campaign, as withdrawing does, and the next begins later.
func (p *process) campaign(election string) {
	g := p.rand(election, 0)
	for p.ctx.Err() == nil {
		ctx, cancel := context.WithCancel(p.ctx)
		p.mu.Lock()
		p.leave[election] = cancel
		p.mu.Unlock()
		p.runs.Add(1)
		err := p.member.Lead(ctx, election, p.duty)
		if p.runs.Add(-1) == 0 {
			p.idles.Add(1)
		}

		withdrawn := ctx.Err() != nil
		cancel()
		if p.ctx.Err() != nil {
			return
		}

		pause := between(g, 0, p.plan.Config.LeaseDuration)
		switch {
		case withdrawn:
			pause = between(g, 0, p.requestTimeout()/4)
		case err != nil && !errors.Is(err, errBored) && !errors.Is(err, regent.ErrPanicked):
			p.rec.add(p, Event{Kind: Died, Name: election, Text: err.Error()})
			return
		}

		sleep(p.ctx, pause)
	}
}

// aside runs f beside the process's campaigns, unless these are over.
func (p *process) aside(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.asks.Go(f)
	}
}

// withdraw ends the process's campaign for an election. It begins another one soon.
func (p *process) withdraw(election string) {
	p.mu.Lock()
	leave := p.leave[election]
	p.mu.Unlock()
	if leave != nil && !p.sim.settled.Load() {
		p.sim.say(p, "withdraws from %s", election)
		leave()
	}
}

// requestTimeout is how long a request of the process may take.
func (p *process) requestTimeout() time.Duration {
	return trust(p.plan.Config.LeaseDuration, p.plan.Config.StopTimeout) / 4
}

func (p *process) rand(election string, epoch uint64) *rand.Rand {
	h := p.sim.plan.Seed*1000003 + uint64(p.index)
	for _, c := range []byte(election) {
		h = h*131 + uint64(c)
	}

	return rand.New(rand.NewPCG(h, epoch))
}

var errBored = errors.New("the duty has had enough")

// duty is the work of a leader. It says at every step whether it believes in its term, and sends
// work either way if it is of the kind that does not ask. When it has to stop it takes its time over
// it, but less than the stop timeout, unless it is stuck.
func (p *process) duty(ctx context.Context, t regent.Term) error {
	g := p.rand(t.Election, t.Epoch)
	p.rec.add(p, Event{Kind: Granted, Name: t.Election, Epoch: t.Epoch, Who: t.Incarnation, Valid: true,
		Data: string(t.Saved())})
	defer p.rec.add(p, Event{Kind: Ended, Name: t.Election, Epoch: t.Epoch, Who: t.Incarnation})
	p.granted(t)
	d := p.plan.Duty
	if g.Float64() < d.Outlive {
		p.outlive(t)
	}

	bored := never
	if g.Float64() < d.Bored {
		bored = time.Since(p.sim.start) + between(g, 0, 4*p.plan.Config.LeaseDuration)
	}

	for ctx.Err() == nil && !p.sim.over.Load() {
		p.act(g, t, false)
		if g.Float64() < d.Save {
			p.save(ctx, t, g)
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

	p.rec.add(p, Event{Kind: Stopping, Name: t.Election, Epoch: t.Epoch, Who: t.Incarnation})
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

// save keeps a checkpoint that names the term which it belongs to.
func (p *process) save(ctx context.Context, t regent.Term, g *rand.Rand) {
	data := fmt.Sprintf("%s %d %08x", t.Incarnation, t.Epoch, g.Uint32())
	err := t.Save(ctx, []byte(data))
	switch {
	case err == nil:
		p.rec.add(p, Event{Kind: Saved, Name: t.Election, Epoch: t.Epoch, Who: t.Incarnation, Data: data})
	case errors.Is(err, regent.ErrNotLeader):
		p.sim.reach(SaveRefused)
	}
}

// outlive starts a goroutine of the duty that goes on saving after the duty has returned. One of
// its saves stalls between its check and its swap, while the term is made to end.
func (p *process) outlive(t regent.Term) {
	g := p.rand(t.Election+" saver", t.Epoch)
	w := p.plan.Config.LeaseDuration
	saves := 2 + g.IntN(4)
	stalled := g.IntN(saves)
	stepsDown := chance(g, 0.5)
	p.aside(func() {
		for i := range saves {
			sleep(p.ctx, between(g, w/20, w))
			ctx, cancel := context.WithTimeout(p.ctx, 3*w)
			if i == stalled && t.Valid() && p.ctx.Err() == nil && !p.dead.Load() {
				p.sim.reach(SaveStalled)
				p.clock.stall(between(g, w/10, 2*w))
				if stepsDown {
					p.sim.ask(p, w, "itself to step down from "+t.Election, func(ctx context.Context) error {
						return p.member.StepDown(ctx, t.Election)
					})
				}
			}

			p.save(ctx, t, g)
			p.clock.stall(0)
			cancel()
		}
	})
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
	p.rec.add(p, Event{Kind: Acting, Name: t.Election, Epoch: t.Epoch, Who: t.Incarnation, Valid: valid, Stuck: stuck})
	worker, delay := g.IntN(workers), p.plan.Duty.Work
	if valid || p.plan.Duty.Trusting {
		p.sim.send(p, worker, t.Election, t.Token(), between(g, delay/100, delay))
	}
}

// noteLeaders notes which elections the process says it leads: at the very moment when another claims one, and
// now and then.
func (p *process) noteLeaders(election string) {
	if p.dead.Load() {
		return
	}

	t, ok := p.member.Leads(election)
	if !ok {
		return
	}

	if p.plan.Idle {
		p.mu.Lock()
		news := p.reported[election] != t.Epoch
		p.reported[election] = t.Epoch
		p.mu.Unlock()
		if news {
			p.rec.add(p, Event{Kind: Granted, Name: election, Epoch: t.Epoch, Who: t.Incarnation})
			p.granted(t)
		}
	}

	p.rec.add(p, Event{Kind: Believed, Name: election, Epoch: t.Epoch, Who: t.Incarnation})
}

func (p *process) leads(election string) bool {
	_, ok := p.member.Leads(election)
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
