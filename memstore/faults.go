package memstore

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Faults describes what goes wrong between a client and the store. The zero value is a perfect network. Probabilities
// are between 0 and 1 (values outside are clamped), and are drawn for each request.
//
// The random numbers of a request depend on Seed, on the client's name, and on how many requests of this kind the
// client has sent to this register before. They do not depend on other clients, other registers, or which faults are
// set. So a seed replays even if goroutines of one client run in another order.
type Faults struct {
	Seed uint64

	Request Delay // how long a request takes to arrive
	Answer  Delay // how long its answer takes to come back

	LoseRequest float64 // probability that a request never arrives
	LoseAnswer  float64 // probability that a request is executed, and its answer never arrives
	ApplyLate   float64 // probability that a swap gets no answer, and is executed Late after it should have been
	Late        Delay   // how late that is
	Conflict    float64 // probability that a swap is answered with driver.ErrConflict, and not applied

	// Timeout is when a call without an answer fails with ErrNoAnswer, counted from the moment it is lost. If zero, the
	// call waits for its context; a context without a deadline waits until the store is closed.
	Timeout Delay

	// Linger is how long a call continues after its context has ended. A driver must return soon after that, so this is
	// for tests of callers that must not depend on it.
	Linger time.Duration

	Outage      bool // every request that arrives fails with ErrOutage, and is not executed
	CutRequests bool // partition: no request arrives
	CutAnswers  bool // partition: no answer comes back, and no notification

	LoseNotice     float64 // probability that a notification is lost
	DoubleNotice   float64 // probability that a notification comes again, after another NoticeDelay
	BareNotice     float64 // probability that a notification does not carry the record
	SpuriousNotice float64 // probability of a spurious notification, at every swap that needs none
	NoticeDelay    Delay   // how late a notification is
}

// Delay is a range from which a delay is drawn uniformly. A Max below Min counts as Min, and a negative Min as 0.
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

// plus returns the faults of two networks in a row.
func (f Faults) plus(g Faults) Faults {
	return Faults{
		Seed:    f.Seed ^ g.Seed,
		Request: f.Request.plus(g.Request), Answer: f.Answer.plus(g.Answer),
		LoseRequest: either(f.LoseRequest, g.LoseRequest), LoseAnswer: either(f.LoseAnswer, g.LoseAnswer),
		ApplyLate: either(f.ApplyLate, g.ApplyLate), Late: f.Late.plus(g.Late),
		Conflict: either(f.Conflict, g.Conflict), Timeout: f.Timeout.plus(g.Timeout), Linger: f.Linger + g.Linger,
		Outage: f.Outage || g.Outage, CutRequests: f.CutRequests || g.CutRequests, CutAnswers: f.CutAnswers ||
			g.CutAnswers,
		LoseNotice: either(f.LoseNotice, g.LoseNotice), DoubleNotice: either(f.DoubleNotice, g.DoubleNotice),
		BareNotice:     either(f.BareNotice, g.BareNotice),
		SpuriousNotice: either(f.SpuriousNotice, g.SpuriousNotice), NoticeDelay: f.NoticeDelay.plus(g.NoticeDelay),
	}
}

// either returns the probability that at least one of two independent events happens.
func either(p, q float64) float64 {
	p, q = min(max(p, 0), 1), min(max(q, 0), 1)
	return 1 - (1-p)*(1-q)
}

// faultSetting holds faults that can be changed while in use. Nil means none.
type faultSetting struct {
	faultsMu sync.Mutex
	current  atomic.Pointer[Faults]
}

// Faults returns the current faults.
func (d *faultSetting) Faults() Faults {
	if f := d.current.Load(); f != nil {
		return *f
	}
	return Faults{}
}

func (d *faultSetting) set(f Faults) {
	if f == (Faults{}) {
		d.current.Store(nil)
		return
	}
	d.current.Store(&f)
}

func (d *faultSetting) adjust(change func(*Faults)) Faults {
	d.faultsMu.Lock()
	defer d.faultsMu.Unlock()

	f := d.Faults()
	change(&f)
	d.set(f)
	return f
}

// draws are the random numbers of one request. All are always drawn, so that setting one fault does not change the
// numbers of another.
type draws struct {
	request, answer, late, timeout        float64 // fractions of a delay
	loseRequest, loseAnswer, apply, clash float64 // compared with a probability
}

func draw(seed, client, what, n uint64) draws {
	// A generator for each request: with a shared one, concurrent requests would change each other's numbers.
	g := rand.New(rand.NewPCG(seed^client, what+n*0x9e3779b97f4a7c15))
	u := g.Float64
	return draws{
		request: u(), answer: u(), late: u(), timeout: u(),
		loseRequest: u(), loseAnswer: u(), apply: u(), clash: u(),
	}
}

// fingerprint is FNV-1a. Unlike hash/maphash, it is the same in every process, and so are the random numbers.
func fingerprint(kind Kind, s string) uint64 {
	h := (uint64(14695981039346656037) ^ uint64(kind)) * 1099511628211
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
