package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

const never = time.Duration(math.MaxInt64)

// Plan is what a seed stands for: who takes part, over which network, and what goes wrong when.
type Plan struct {
	Seed      uint64
	Class     Class
	Elections []string
	Members   []MemberPlan
	Actions   []Action
	Faulty    time.Duration // how long things go wrong
	Late      time.Duration // how long after that a swap sent before may still arrive
	Bound     time.Duration // I7

	Unreadable int           // the election that stays unreadable to the end; -1 for none
	Panics     bool          // drivers panic
	Nag        time.Duration // how often a dead leader is asked to step down, to the end; never if 0
}

// MemberPlan is one member and its network.
type MemberPlan struct {
	ID      string
	Config  regent.Config
	Rate    float64
	Offset  time.Duration
	Start   time.Duration
	Faults  memstore.Faults
	Notices bool // its store has a push

	Witness bool          // its store proves the death of processes
	Idle    bool          // its elections have no duty
	Health  bool          // it has a health check
	Watch   bool          // somebody watches an election through it
	Reaper  bool          // it has a reaper
	Pipe    time.Duration // how long a message to its reaper takes
	Duty    DutyPlan
}

// DutyPlan is the character of a member's duties.
type DutyPlan struct {
	Tick     time.Duration // between two acts, at most
	Work     time.Duration // how long work takes to its worker, at most
	Trusting bool          // it sends work without asking whether its term is valid
	Stuck    float64       // chance that it does not stop in time
	Bored    float64       // chance that it returns of its own accord
	Save     float64       // chance of a checkpoint at each act
	Outlive  float64       // chance that a goroutine of it goes on saving when it has returned
}

func between(g *rand.Rand, lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}

	return lo + time.Duration(g.Int64N(int64(hi-lo)))
}

func scale(d time.Duration, f float64) time.Duration { return time.Duration(float64(d) * f) }

func uniform(g *rand.Rand, lo, hi float64) float64 { return lo + g.Float64()*(hi-lo) }

func chance(g *rand.Rand, p float64) bool { return g.Float64() < p }

// NewPlan draws the plan of a seed.
func NewPlan(seed uint64) *Plan {
	g := rand.New(rand.NewPCG(seed, 0x5eed))
	p := &Plan{Seed: seed}
	switch x := g.Float64(); {
	case x < 0.10:
		p.Class = Beyond
	case x < 0.21:
		p.Class = Rollback
	case x < 0.36:
		p.Class = Lossy
	}

	p.Panics = p.Class == Assumed && chance(g, 0.12)
	p.Unreadable = -1
	for i := range 1 + g.IntN(3) {
		p.Elections = append(p.Elections, fmt.Sprint("seat", i))
	}

	n := 2 + int(6*g.Float64()*g.Float64()) // rather few than many: a crowd hides what two do to each other
	cfg := drawConfig(g, p.Panics)
	network := drawNetwork(g, cfg)
	reaper := p.Class != Rollback && chance(g, 0.4)
	outlive := chance(g, 0.3)
	if len(p.Elections) > 1 && p.Class == Assumed && chance(g, 0.1) {
		p.Unreadable = g.IntN(len(p.Elections))
	}

	notices := chance(g, 0.7)
	mixed := chance(g, 0.1)
	witness := chance(g, 0.15)
	idle := chance(g, 0.2)
	for i := range n {
		m := MemberPlan{ID: string(rune('a' + i)), Config: cfg, Notices: notices, Idle: idle || chance(g, 0.1),
			Health: chance(g, 0.3), Watch: chance(g, 0.25), Witness: witness,
			Reaper: reaper, Pipe: between(g, 10*time.Microsecond, time.Millisecond), Offset: between(g, 0,
				1000*time.Hour), Start: between(g, 0, cfg.LeaseDuration/4), Faults: network, Duty: drawDuty(g, cfg)}
		m.Rate = 1 + uniform(g, -0.001, 0.001)
		if chance(g, 0.3) {
			m.Rate = 1.001 - 0.002*float64(i%2) // the worst that is assumed
		}

		if p.Class == Beyond {
			m.Rate = 1 + uniform(g, -0.2, 0.2)
		}

		if mixed {
			stretch(&m.Config, uniform(g, 0.6, 1.6))
		}

		if chance(g, 0.15) {
			m.Faults = drawNetwork(g, cfg)
		}

		if outlive {
			m.Duty.Outlive = 0.5
		}

		if p.Class == Lossy {
			m.Faults = lossless(m.Faults, cfg)
			m.Duty.Bored = 0
			if i > 1 && chance(g, 0.4) { // one that remembers nothing
				m.Start = between(g, 2*cfg.LeaseDuration, 10*cfg.LeaseDuration)
			}
		}

		m.Config.Priority = g.IntN(3)
		m.Faults.Seed = g.Uint64()
		p.Members = append(p.Members, m)
	}

	p.Faulty = min(scale(cfg.LeaseDuration, uniform(g, 8, 20)), 100*time.Second+cfg.LeaseDuration)
	p.Late = cfg.LeaseDuration * 2
	for _, m := range p.Members {
		c := m.Config
		p.Bound = max(p.Bound,
			3*(c.LeaseDuration+c.TakeoverDelay+c.ElectionIntervalMax)+4*c.HeartbeatInterval+c.StartupJitterMax)
	}

	p.drawActions(g, cfg)
	return p
}

// drawConfig returns a profile as it is, or a quick one whose figures are near each other, so that
// less can hide between them. Duties that take seconds to stop, beyond the second after which an
// engine that died is started again, come with patient.
func drawConfig(g *rand.Rand, patient bool) regent.Config {
	own := chance(g, 0.4)
	if !patient && chance(g, 0.12) {
		c := regent.Cluster()
		switch {
		case own:
			c = regent.Lock()
		case chance(g, 0.3):
			c = regent.Fleet()
		}

		// drawn here, since the code would draw what no seed repeats
		c.StartupJitterMin = between(g, 0, c.StartupJitterMax)
		c.StartupJitterMax = c.StartupJitterMin
		return c
	}

	c := regent.Cluster()
	w := between(g, time.Second, 6*time.Second)
	c.OwnLease, c.LeaseDuration = own, w
	c.StopTimeout = scale(w, uniform(g, 0.01, 0.2))
	sharp := !patient && chance(g, 0.4) // as little slack between holder and observer as the rules allow
	if sharp {
		c.StopTimeout = scale(w, uniform(g, 0.005, 0.03))
	}

	if patient {
		w = between(g, 5*time.Second, 9*time.Second)
		c.LeaseDuration = w
		c.StopTimeout = scale(w, uniform(g, 0.25, 0.45))
	}

	d := trust(w, c.StopTimeout)
	c.HeartbeatInterval = scale(d, uniform(g, 0.15, 0.75))
	c.RenewInterval = c.HeartbeatInterval
	c.WorkerTimeout = w
	c.RenewBackoff = nil
	for _, f := range []float64{0.05, 0.1, 0.2} {
		c.RenewBackoff = append(c.RenewBackoff, scale(d, f))
	}

	c.TakeoverDelay = 0
	if !sharp && chance(g, 0.6) {
		c.TakeoverDelay = scale(w, uniform(g, 0.05, 0.5))
	}

	c.ElectionInterval = scale(w, uniform(g, 0.2, 1.2))
	c.ElectionIntervalMax = c.ElectionInterval * time.Duration(1+g.IntN(4))
	if chance(g, 0.3) {
		c.StartupJitterMin = between(g, w/20, w)
		c.StartupJitterMax = c.StartupJitterMin
	}

	switch x := g.Float64(); {
	case x < 0.12:
		c.Rank = regent.RankLexicographic
	case x < 0.24:
		c.Rank, c.Preempt = regent.RankPriority, chance(g, 0.5)
	default:
		c.Register = own && chance(g, 0.5)
	}

	return c
}

// stretch changes all durations alike, as in the middle of a change of configuration.
func stretch(c *regent.Config, f float64) {
	for _, d := range []*time.Duration{&c.LeaseDuration, &c.RenewInterval, &c.StopTimeout, &c.ElectionInterval,
		&c.ElectionIntervalMax,
		&c.TakeoverDelay, &c.HeartbeatInterval, &c.WorkerTimeout, &c.StartupJitterMin, &c.StartupJitterMax} {
		*d = scale(*d, f)
	}

	backoff := make([]time.Duration, len(c.RenewBackoff))
	for i, d := range c.RenewBackoff {
		backoff[i] = scale(d, f)
	}

	c.RenewBackoff = backoff
}

// drawNetwork returns a network between perfect and bad. No way is ever free of delay, so that
// hardly two things happen at one instant.
func drawNetwork(g *rand.Rand, c regent.Config) memstore.Faults {
	d := trust(c.LeaseDuration, c.StopTimeout)
	slow := []time.Duration{2 * time.Millisecond, 30 * time.Millisecond, d / 10, d / 4}[g.IntN(4)]
	f := memstore.Faults{
		Request:     memstore.Delay{Min: slow / 50, Max: slow},
		Answer:      memstore.Delay{Min: slow / 50, Max: slow},
		NoticeDelay: memstore.Delay{Min: slow / 50, Max: slow},
		Timeout:     memstore.Delay{Min: d / 100, Max: d / 8},
		Late:        memstore.Delay{Min: 0, Max: c.LeaseDuration * 3 / 2},
	}

	if chance(g, 0.3) {
		f.Timeout = memstore.Delay{} // whoever gets no answer waits until the request times out
	}

	if chance(g, 0.6) {
		bad := uniform(g, 0.01, 0.2)
		f.LoseRequest = bad * g.Float64()
		f.LoseAnswer = bad * g.Float64()
		f.ApplyLate = bad * g.Float64()
		if chance(g, 0.5) {
			f.Conflict = bad * g.Float64()
		}
	}

	switch g.IntN(5) {
	case 0:
		f.LoseNotice = 1
	case 1:
		f.LoseNotice = 0.3
		f.DoubleNotice = 0.3
		f.BareNotice = 0.3
		f.SpuriousNotice = 0.1
	case 2:
		f.NoticeDelay.Max = c.LeaseDuration
	}

	return f
}

// lossless returns a network in which every request is answered in time, though the push may fail.
func lossless(f memstore.Faults, c regent.Config) memstore.Faults {
	most := trust(c.LeaseDuration, c.StopTimeout) / 16
	f.Request.Max = min(f.Request.Max, most)
	f.Answer.Max = min(f.Answer.Max, most)
	f.LoseRequest = 0
	f.LoseAnswer = 0
	f.ApplyLate = 0
	f.Conflict = 0
	return f
}

func drawDuty(g *rand.Rand, c regent.Config) DutyPlan {
	d := DutyPlan{Tick: scale(c.LeaseDuration, uniform(g, 0.03, 0.15)), Work: scale(c.LeaseDuration, uniform(g, 0,
		0.2)), Trusting: chance(g, 0.3)}
	if chance(g, 0.3) {
		d.Work = 2 * c.LeaseDuration
	}

	if chance(g, 0.15) {
		d.Stuck = 0.3
	}

	if chance(g, 0.15) {
		d.Bored = 0.3
	}

	if chance(g, 0.4) {
		d.Save = uniform(g, 0.02, 0.3)
	}

	return d
}
