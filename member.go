package regent

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// Member is one process in the cluster. Set Store, and the other fields that are needed, before its first use. Do not
// copy it after that.
//
// A member does nothing until it is used. The first call of Lead, Run or Watch starts it, after the start-up jitter.
// When the last of them has returned, the member has left the cluster and runs no goroutine.
type Member struct {
	Store  driver.Store
	ID     string // unique among the members, stable over restarts; hostname-pid if empty
	Addr   string // where others can reach the member; published, not used
	Worker bool   // the member takes tasks; published, not used

	// Facts are published with every heartbeat, for others to read: the host and the version of the member, say. They
	// may take at most 16 KiB as JSON, and must not contain secrets.
	Facts map[string]string

	// Config configures the member. The zero value is the profile [Cluster].
	Config Config

	// Health is called at every heartbeat. While it returns an error, or takes longer than a heartbeat interval, the
	// member does not campaign, and hands over the elections that it leads if there is another healthy candidate. A
	// panic counts as an error. Calls do not overlap.
	Health func(context.Context) error

	// OnEvent is called with every event, in order, one at a time. It may be slow: the election does not wait for it.
	// If OnEvent falls 4,096 events behind, events are dropped. Stats counts them, and panics of OnEvent.
	OnEvent func(Event)

	// OnLifeline is called after every applied heartbeat. It is for a companion process that releases the elections
	// of a process that has died. It must not block.
	OnLifeline func(Lifeline)

	// Clock is for tests.
	Clock Clock

	// startStop has a value while the member is being started or stopped. It is a channel and no mutex, since stopping
	// takes time, and a caller whose context ends must not wait for it.
	startStop chan struct{}
	users     int // guarded by startStop, as are the next two
	stop      context.CancelFunc
	done      chan struct{}

	clock    Clock
	eventsMu sync.RWMutex
	events   *events
	observed <-chan struct{} // closed when OnEvent has returned from the last event of the run before
	seq      uint64
	stats    counters
	terms    sync.Map     // election -> *term, those that have not ended
	check    *healthCheck // the last one; only the goroutine that checks uses it

	// mu guards all that follows. It is not held while the core is stepped: inputs are queued with it held, and carried
	// out by shell.Do without it.
	mu       sync.Mutex
	run      *run       // the current one; nil while there is none
	last     *core.Core // of the run before: the next one inherits what it knows
	cands    map[string]*candidate
	watchers map[string]int           // how many calls of Watch there are for an election
	views    map[string]*electionView // of the elections that somebody watches or campaigns for
	memory   map[string]uint64        // the highest epoch seen of each election (rule 5)
	fences   map[string]*MemberFence
	checkErr error         // what the last health check returned
	latency  time.Duration // of the store, as published under rank latency
	blocked  string        // why the member cannot join
	duties   []*dutyRecord
	failing  []*dutyRecord // those that fail too often
}

// Lead campaigns for an election until ctx ends, and calls f in each term that it wins. The context of f ends with
// the term, and its [context.Cause] says why the term ended. f must then return: the election is released only after
// that. If the term was lost, Lead campaigns again.
//
// Lead returns the cause of ctx. If f returns while its term holds, the campaign is over: the election is released, and
// Lead returns what f returned. So a nil from f means that the work is done for good, and Lead returns nil. That is
// different from [Duty], whose Run ends its work for one term by returning nil.
//
// f is called by the goroutine that has called Lead. If f ends that goroutine ([runtime.Goexit], for example by
// testing.T.FailNow), the campaign is over as well.
func (m *Member) Lead(ctx context.Context, election string, f func(context.Context, Term) error) error {
	c := newCandidate(ctx, election)
	c.run = f
	c.here = true
	c.member = m
	c.caller = ctx
	m.goLaunch(c)

	defer m.depart(c)
	for step := <-c.steps; ; step = <-c.steps {
		c.last = step.kind
		switch step.kind {
		case termBegan:
			step.term.serve()
		case dutyReturned, notJoined:
			return c.err
		case hasLeft:
			return context.Cause(ctx)
		}
	}
}

// goLaunch has another goroutine launch a campaign: a stack that has grown never gets as small again as that of a
// goroutine that only waits, and a process may lead a great many elections.
func (m *Member) goLaunch(c *candidate) {
	m.mu.Lock()
	r := m.run
	m.mu.Unlock()

	if r == nil {
		go c.Do()
	} else {
		r.shell.Go(c)
	}
}

// Do launches a campaign of Lead.
func (c *candidate) Do() { c.member.launch(c.caller, c) }

// launch starts a campaign, and sends its first request.
func (m *Member) launch(ctx context.Context, c *candidate) {
	r, err := m.join(ctx, c)
	if err != nil {
		c.err = err
		c.steps <- candidateStep{kind: notJoined}
		return
	}

	c.withdraw = func() {
		m.withdraw(c)
		c.steps <- candidateStep{kind: hasLeft}
	}
	c.stop = context.AfterFunc(ctx, c.withdraw)
	c.launched.set()
	r.shell.DoHere()
}

// depart ends a campaign after its last step, and is not the member's user any more.
func (m *Member) depart(c *candidate) {
	if c.last == notJoined {
		return
	}

	defer m.exit()
	c.launched.wait() // a term may begin and end before launch has returned

	switch {
	case c.last == hasLeft:
		return
	case !c.stop(): // the candidate is leaving
	case c.last == dutyReturned:
		return
	default: // the duty has ended this goroutine
		go c.withdraw()
	}

	c.leave()
}

// Leads returns the current term of an election, and true if this member leads it: its lease has not expired.
func (m *Member) Leads(election string) (Term, bool) {
	v, ok := m.terms.Load(election)
	if !ok {
		return Term{}, false
	}

	t := v.(*term).public
	return t, t.Valid()
}

const (
	maxEpoch = 1 << 62 // beyond every epoch that can be reached by counting; a fence refuses it
	maxJump  = 1 << 20 // how far beyond the highest known epoch a reported one is believed
)

// Observe reports an epoch that the member could not see in the store: a worker has refused an older one, say. The next
// claim of the member goes beyond the epoch.
//
// An epoch that is more than a million ahead of what the member knows is dropped. The store cannot confirm a reported
// epoch, since it is reported only where the store has lost terms. No store loses more than a million of them, and a
// wrong number must not use up the epochs of an election.
func (m *Member) Observe(election string, epoch uint64) {
	m.mu.Lock()
	r := m.run
	switch {
	case r != nil:
		r.shell.Queue(core.Observed{Election: election, Epoch: epoch})
	case epoch < maxEpoch && epoch <= m.memory[election]+maxJump:
		m.learnLocked(election, epoch)
	}

	m.mu.Unlock()

	if r != nil {
		r.shell.Do()
	}
}

// learnLocked keeps the highest epoch of an election. An epoch that no term can follow is not kept: no term has reached
// it by counting, and nobody could claim the election as long as this process runs.
func (m *Member) learnLocked(election string, epoch uint64) {
	if epoch <= m.memory[election] || epoch >= maxEpoch-1 {
		return
	}

	if m.memory == nil {
		m.memory = map[string]uint64{}
	}

	m.memory[election] = epoch
	if f := m.fences[election]; f != nil {
		_ = f.fence.Learn(Token{Epoch: epoch}) // the first work says which term has it
	}
}

// validElection returns an error if an election cannot have the name.
func validElection(name string) error {
	switch {
	case !driver.ValidName(name):
		return fmt.Errorf("election %q: the name must be 1 to %d bytes of UTF-8 without control characters",
			name, driver.MaxName)
	case name == anyone:
		return fmt.Errorf("election %q: the name stands for every election, in what members publish", name)
	case strings.HasPrefix(name, driver.Reserved):
		return fmt.Errorf("election %q: names that begin with %q are reserved", name, driver.Reserved)
	}

	return nil
}
