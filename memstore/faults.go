package memstore

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Faults is what goes wrong between a client and the store. The zero value is a perfect network.
// Chances are between 0 and 1 (what is outside counts as the nearer of them), and are drawn for
// each request on its own.
//
// What is drawn for a request depends on Seed, on the client's name, and on which one it is of this
// client's requests of its kind to its register: neither on other clients, nor on other registers,
// nor on which faults are set. So a seed replays even where goroutines of one client take turns.
type Faults struct {
	Seed uint64

	Request Delay // how long a request takes to reach the store
	Answer  Delay // how long its answer takes to come back

	LoseRequest float64 // chance that a request never arrives
	LoseAnswer  float64 // chance that a request is carried out, and its answer never arrives
	ApplyLate   float64 // chance that a swap gets no answer, and is tried Late after it should have been
	Late        Delay   // how late that is
	Conflict    float64 // chance that a swap is answered with driver.ErrConflict, and not applied

	// Timeout is when a call without an answer fails with ErrLost, counted from the moment it is lost.
	// If zero, the call waits for its context: one without a deadline then waits for the store to be
	// closed.
	Timeout Delay

	// Linger is how long a call goes on after its context has ended. A driver owes to return soon
	// after that, so this is for tests of callers that must not depend on it.
	Linger time.Duration

	Outage      bool // every request that arrives fails with ErrOutage, and is not carried out
	CutRequests bool // partition: nothing reaches the store
	CutAnswers  bool // partition: nothing comes back, hints included

	LoseHint     float64 // chance that a hint is lost
	DoubleHint   float64 // chance that a hint comes again, after another HintDelay
	BareHint     float64 // chance that a hint does not bring the record
	SpuriousHint float64 // chance of a hint, at every swap of any register that deserves none
	HintDelay    Delay   // how late a hint is
}

// Delay is a range from which a delay is drawn, evenly. A Max below Min counts as Min, and a
// negative Min as 0.
type Delay struct{ Min, Max time.Duration }

// at returns the delay at fraction u of the range.
func (d Delay) at(u float64) time.Duration {
	lo := max(d.Min, 0)
	if d.Max <= lo {
		return lo
	}
	return lo + time.Duration(u*float64(d.Max-lo))
}

func (d Delay) zero() bool { return d.Min <= 0 && d.Max <= 0 }

func (d Delay) plus(e Delay) Delay {
	lo := max(d.Min, 0) + max(e.Min, 0)
	return Delay{lo, max(d.Max, d.Min, 0) + max(e.Max, e.Min, 0)}
}

// plus returns the faults of one network behind another.
func (f Faults) plus(g Faults) Faults {
	return Faults{
		Seed:    f.Seed ^ g.Seed,
		Request: f.Request.plus(g.Request), Answer: f.Answer.plus(g.Answer),
		LoseRequest: either(f.LoseRequest, g.LoseRequest), LoseAnswer: either(f.LoseAnswer, g.LoseAnswer),
		ApplyLate: either(f.ApplyLate, g.ApplyLate), Late: f.Late.plus(g.Late),
		Conflict: either(f.Conflict, g.Conflict), Timeout: f.Timeout.plus(g.Timeout), Linger: f.Linger + g.Linger,
		Outage: f.Outage || g.Outage, CutRequests: f.CutRequests || g.CutRequests, CutAnswers: f.CutAnswers || g.CutAnswers,
		LoseHint: either(f.LoseHint, g.LoseHint), DoubleHint: either(f.DoubleHint, g.DoubleHint), BareHint: either(f.BareHint, g.BareHint),
		SpuriousHint: either(f.SpuriousHint, g.SpuriousHint), HintDelay: f.HintDelay.plus(g.HintDelay),
	}
}

// either returns the chance that one of two independent things happens.
func either(p, q float64) float64 {
	p, q = min(max(p, 0), 1), min(max(q, 0), 1)
	return 1 - (1-p)*(1-q)
}

// dial holds faults that can be changed while in use. Nil stands for none.
type dial struct {
	turn    sync.Mutex
	current atomic.Pointer[Faults]
}

// Faults returns the faults that are set here.
func (d *dial) Faults() Faults {
	if f := d.current.Load(); f != nil {
		return *f
	}
	return Faults{}
}

func (d *dial) set(f Faults) {
	if f == (Faults{}) {
		d.current.Store(nil)
		return
	}
	d.current.Store(&f)
}

func (d *dial) adjust(change func(*Faults)) Faults {
	d.turn.Lock()
	defer d.turn.Unlock()
	f := d.Faults()
	change(&f)
	d.set(f)
	return f
}

// dice are the draws for one request: always all, so that setting one fault does not change what is
// drawn for another.
type dice struct {
	request, answer, late, timeout        float64 // fractions of a delay
	loseRequest, loseAnswer, apply, clash float64 // against a chance
}

func throw(seed, client, what, n uint64) dice {
	// A generator for each request, since a shared one would let concurrent requests shuffle each
	// other's draws.
	g := rand.New(rand.NewPCG(seed^client, what+n*0x9e3779b97f4a7c15))
	u := g.Float64
	return dice{
		request: u(), answer: u(), late: u(), timeout: u(),
		loseRequest: u(), loseAnswer: u(), apply: u(), clash: u(),
	}
}

// fingerprint is FNV-1a: the same in every process, unlike hash/maphash, and so are the draws.
func fingerprint(kind Kind, s string) uint64 {
	h := (uint64(14695981039346656037) ^ uint64(kind)) * 1099511628211
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
