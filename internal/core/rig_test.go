package core

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// counter is a source that counts, with a wall clock that follows the core's.
type counter struct {
	last  uint64
	clock *Time
}

func (s *counter) Nonce() uint64 {
	s.last++
	return s.last
}

func (s *counter) Incarnation() string { return "i" + strconv.FormatUint(s.Nonce(), 10) }

// wallStart is what the wall clock shows when the core's clock shows 0.
var wallStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *counter) Wall() time.Time {
	if s.clock == nil {
		return time.Time{}
	}
	return wallStart.Add(time.Duration(*s.clock))
}

// rig is one core and a store whose answers a test controls.
type rig struct {
	t       *testing.T
	c       *Core
	now     Time
	store   map[string]driver.Record
	rev     int
	pending []Send   // requests without an answer
	seen    []Effect // everything since the last forget

	dead map[driver.Identity]bool // what the store can prove

	unreadable string // a register of which the store answers no read
}

const election1 = "e"

// clusterConfig is the cluster profile; lockConfig has leases of their own.
func clusterConfig() Config {
	return Config{
		ID: "a", LeaseDuration: 6 * time.Second, RenewInterval: 1500 * time.Millisecond, StopTimeout: time.Second,
		RenewBackoff:     []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second},
		ElectionInterval: 5 * time.Second, ElectionIntervalMax: 5 * time.Second, TakeoverDelay: time.Second,
		HeartbeatInterval: 1500 * time.Millisecond, WorkerTimeout: 6 * time.Second, Eligible: true,
	}
}

func lockConfig() Config {
	cfg := clusterConfig()
	cfg.OwnLease = true
	cfg.TakeoverDelay = 0
	return cfg
}

func newRig(t *testing.T, cfg Config) *rig {
	r := &rig{t: t, now: Time(time.Hour), store: map[string]driver.Record{}}
	r.c = New(cfg, &counter{clock: &r.now})
	return r
}

// step gives one input to the core.
func (r *rig) step(in Input) {
	r.t.Helper()
	for _, e := range r.c.Step(r.now, in) {
		r.seen = append(r.seen, e)
		if s, ok := e.(Send); ok {
			r.pending = append(r.pending, s)
		}
	}
}

func (r *rig) forget() { r.seen = nil }

// serve answers every request as the store would, until there is none left.
func (r *rig) serve() {
	r.t.Helper()
	for len(r.pending) > 0 {
		s := r.pending[0]
		r.pending = r.pending[1:]
		if s.Verb == List || s.Verb == Skim {
			records, partial := s.Seek.End(r.members())
			r.step(Answer{ID: s.ID, Outcome: Done, Records: records, Partial: partial})
			continue
		}
		o, rec := r.apply(s)
		r.step(Answer{ID: s.ID, Outcome: o, Record: rec, Gone: s.Witness && r.dead[rec.Holder]})
	}
}

// serveOnly answers requests about one register, until there is none left.
func (r *rig) serveOnly(name string) {
	r.t.Helper()
	for slices.ContainsFunc(r.pending, func(s Send) bool { return s.Record.Name == name }) {
		s := r.take(name)
		o, rec := r.apply(s)
		r.answer(s, o, rec)
	}
}

// members returns the member registers, in the order of their names.
func (r *rig) members() []driver.Record {
	var all []driver.Record
	for _, name := range slices.Sorted(maps.Keys(r.store)) {
		if strings.HasPrefix(name, driver.MemberPrefix) {
			all = append(all, r.store[name])
		}
	}
	return all
}

// lists returns how often the members were listed since the last forget.
func (r *rig) lists() int {
	n := 0
	for _, s := range every[Send](r) {
		if s.Verb == List {
			n++
		}
	}
	return n
}

// apply lets a request reach the store.
func (r *rig) apply(s Send) (Outcome, driver.Record) {
	current, ok := r.store[s.Record.Name]
	switch {
	case s.Verb == Get && s.Record.Name == r.unreadable:
		return Unknown, driver.Record{}
	case s.Verb == Named:
		return r.named(s.Record.Name)
	case s.Verb == Get && !ok:
		return NotFound, driver.Record{}
	case s.Verb == Get:
		return Done, current
	case current.Rev != s.Record.Rev:
		return Conflict, driver.Record{}
	case s.Verb == Remove:
		delete(r.store, s.Record.Name)
		return Done, driver.Record{}
	}
	return Done, r.put(s.Record)
}

// named finds an election that names a heartbeat register.
func (r *rig) named(register string) (Outcome, driver.Record) {
	for _, rec := range r.store {
		if !rec.Vacant() && rec.Via == register {
			return Done, rec
		}
	}
	return NotFound, driver.Record{}
}

// put writes a record as somebody else would.
func (r *rig) put(rec driver.Record) driver.Record {
	r.rev++
	rec.Rev = strconv.Itoa(r.rev)
	r.store[rec.Name] = rec
	return rec
}

// take removes the one pending request about a register.
func (r *rig) take(name string) Send {
	r.t.Helper()
	i := slices.IndexFunc(r.pending, func(s Send) bool { return s.Record.Name == name })
	if i < 0 {
		r.t.Fatalf("no request about %s is under way: %v", name, r.pending)
	}
	s := r.pending[i]
	r.pending = slices.Delete(r.pending, i, i+1)
	return s
}

// none fails the test if a request about a register is under way.
func (r *rig) none(name string) {
	r.t.Helper()
	if i := slices.IndexFunc(r.pending, func(s Send) bool { return s.Record.Name == name }); i >= 0 {
		r.t.Fatalf("unexpected request at %v: %+v", r.now, r.pending[i])
	}
}

func (r *rig) answer(s Send, o Outcome, rec driver.Record) {
	r.t.Helper()
	r.step(Answer{ID: s.ID, Outcome: o, Record: rec})
}

// pass lets time pass. The core is called whenever it asked for that; requests stay unanswered.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	end := r.now.Add(d)
	for n := 0; r.c.Next() <= end; n++ {
		if n > 10_000 {
			r.t.Fatalf("the core is called for ever at %v", r.now)
		}
		r.now = max(r.now, r.c.Next())
		r.step(Tick{})
	}
	r.now = end
}

// run lets time pass, and the store answers everything at once.
func (r *rig) run(d time.Duration) {
	r.t.Helper()
	end := r.now.Add(d)
	r.serve()
	for n := 0; r.c.Next() <= end; n++ {
		if n > 100_000 {
			r.t.Fatalf("the core is called for ever at %v", r.now)
		}
		r.now = max(r.now, r.c.Next())
		r.step(Tick{})
		r.serve()
	}
	r.now = end
}

// start joins and campaigns.
func (r *rig) start() {
	r.t.Helper()
	r.step(Campaign{election1})
	r.step(Join{})
}

// lead makes the core lead, by claiming an election that nobody holds.
func (r *rig) lead() Begin {
	r.t.Helper()
	r.start()
	r.serve()
	return find[Begin](r)
}

// find returns the only effect of its kind since the last forget.
func find[E Effect](r *rig) E {
	r.t.Helper()
	all := every[E](r)
	if len(all) != 1 {
		r.t.Fatalf("want one %T, got %d in %s", *new(E), len(all), r.list())
	}
	return all[0]
}

func every[E Effect](r *rig) []E {
	var all []E
	for _, e := range r.seen {
		if e, ok := e.(E); ok {
			all = append(all, e)
		}
	}
	return all
}

func (r *rig) absent(kind EventKind) {
	r.t.Helper()
	for _, e := range every[Event](r) {
		if e.Kind == kind {
			r.t.Fatalf("unexpected event: %+v", e)
		}
	}
}

func (r *rig) count(kind EventKind) int {
	n := 0
	for _, e := range every[Event](r) {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (r *rig) event(kind EventKind) Event {
	r.t.Helper()
	for _, e := range every[Event](r) {
		if e.Kind == kind {
			return e
		}
	}
	r.t.Fatalf("no event %s in %s", kind, r.list())
	return Event{}
}

func (r *rig) list() string {
	text := ""
	for _, e := range r.seen {
		text += fmt.Sprintf("\n\t%T %+v", e, e)
	}
	return text
}

// equal fails the test unless two values are equal.
func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// held returns the record of an election that another member holds, by a lease of its own or by its heartbeat.
func held(by driver.Identity, epoch uint64, via string) driver.Record {
	return driver.Record{
		Name: election1, Holder: by, Epoch: epoch, Nonce: 9000 + epoch, Duration: 6 * time.Second, Via: via,
	}
}

// beating returns the register of another member.
func beating(who driver.Identity, nonce uint64) driver.Record {
	name := driver.MemberRegister(who.ID)
	return driver.Record{Name: name, Holder: who, Epoch: 1, Nonce: nonce, Duration: 6 * time.Second}
}

var (
	other  = driver.Identity{ID: "b", Incarnation: "1.x"}
	remote = driver.MemberRegister("b")
	own    = driver.MemberRegister("a")
)
