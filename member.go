package regent

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// Member is one process in the cluster. Set Store, and what else is wanted, before its first use, and do not copy it after.
//
// It does nothing until it is used. The first Lead, Run or Watch starts it, after the start-up jitter; when the last of them returns it
// has left the cluster and nothing of it runs any more.
type Member struct {
	Store  driver.Store
	ID     string // unique among the members, stable over restarts; hostname-pid if empty
	Addr   string // where others can reach it; passed on, not used
	Worker bool   // it takes tasks: passed on, like Addr
	// Facts is what else others are told of the member, such as its host and its version: passed on, like Addr, with every heartbeat. So
	// keep it small, at most 16 KiB as JSON, and put no secret into it.
	Facts  map[string]string
	Config Config // the cluster profile if zero

	// Health is asked at every heartbeat, and may take as long as one. While it returns an error, or takes longer, the member does not
	// campaign, and hands over what it leads, unless nobody else is there. A panic is an error. It is never asked twice at once.
	Health func(context.Context) error
	// OnEvent sees every event, in order, one at a time. It may be slow: the election never waits for it. One that falls 4,096 events
	// behind loses some, which Stats counts, as it does panics.
	OnEvent func(Event)
	// OnLifeline is told of every applied heartbeat, for a companion process that frees the seats of a dead one. It must not block.
	OnLifeline func(Lifeline)
	// Clock is for tests.
	Clock Clock

	door  chan struct{} // serializes starting and stopping: a channel, since stopping takes time and contexts count for those who wait
	users int
	stop  context.CancelFunc
	done  chan struct{}

	clock    Clock
	eventsMu sync.RWMutex
	events   *events
	observed <-chan struct{} // closed when OnEvent has returned from the last event of the run before
	seq      uint64
	stats    counters
	terms    sync.Map // election -> *term, those that have not ended
	checkup  *checkup // the last health check: of the run that asks for them, one after the other

	mu      sync.Mutex // guards all below. No call of the shell that steps the core is made with it.
	run     *run       // the current one; nil while there is none
	last    *core.Core // of the run before: what it knows outlives it
	cands   map[string]*candidate
	watched map[string]int
	views   map[string]*electionView // of the elections that somebody is interested in
	memory  map[string]uint64        // the highest epoch seen of each election (rule 5)
	fences  map[string]*MemberFence
	sick    error  // what the health check said last
	blocked string // why it cannot join
	duties  []*dutyRecord
	ailing  []*dutyRecord // those that fail too often
}

// Lead campaigns for an election until ctx ends, and runs f for each term that it wins. The context that f gets ends when the term does,
// and its cause says why; f must then return, and only after it has is the seat released. A lost term is followed by the next campaign.
//
// Lead returns the cause of ctx. If f returns while its term holds, the campaign is over: the election is released, and
// Lead returns what f returned. So a nil from f means that the work is done for good, and Lead returns nil. That is
// different from [Duty], whose Run ends its work for one term by returning nil.
func (m *Member) Lead(ctx context.Context, election string, f func(context.Context, Term) error) error {
	c := &candidate{election: election, ctx: context.WithoutCancel(ctx), run: f, result: make(chan error, 1)}
	if err := m.stand(ctx, c); err != nil {
		return err
	}
	defer m.exit()
	select {
	case err := <-c.result:
		return err
	case <-ctx.Done():
		m.withdraw(c)
		select {
		case err := <-c.result: // it came first
			return err
		default:
			return context.Cause(ctx)
		}
	}
}

// Leads returns the current term if this member's lease has not expired.
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
	maxJump  = 1 << 20 // how far beyond the highest known epoch a report is believed
)

// Observe tells the member of an epoch that it could not see in the store: a worker has refused an older one, say. Its next
// claim goes beyond it. The store cannot confirm such an epoch, since it is seen only where the store has forgotten terms;
// so a report is believed if it is at most a million terms ahead of what the member knows, and dropped otherwise: no store
// forgets more than that, and a number from nowhere must not use up the epochs of an election.
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

// learnLocked keeps the highest epoch. One that no term can follow is not kept: no term has reached it by counting, and nobody
// could claim the election as long as this process lives.
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

// stand enters candidates, all or none.
func (m *Member) stand(ctx context.Context, cs ...*candidate) error {
	for _, c := range cs {
		if err := validElection(c.election); err != nil {
			return err
		}
	}
	if err := m.enter(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	for _, c := range cs {
		if m.cands[c.election] != nil {
			m.mu.Unlock()
			m.exit()
			return fmt.Errorf("election %q: %w", c.election, ErrCandidate)
		}
	}
	if m.cands == nil {
		m.cands = map[string]*candidate{}
	}
	r := m.run
	in := make([]core.Input, len(cs))
	for i, c := range cs {
		m.cands[c.election] = c
		in[i] = core.Campaign{Election: c.election}
	}
	r.shell.Queue(in...)
	r.electionsChangedLocked()
	m.mu.Unlock()
	r.shell.Do()
	return nil
}

// withdraw takes candidates back, and returns when their duties have stopped and their elections are released.
func (m *Member) withdraw(cs ...*candidate) {
	m.mu.Lock()
	r := m.run
	var gone []*candidate
	for _, c := range cs {
		if m.cands[c.election] == c {
			delete(m.cands, c.election)
			c.withdrawn = make(chan struct{})
			r.withdrawals[c.election] = append(r.withdrawals[c.election], c)
			r.shell.Queue(core.Withdraw{Election: c.election})
			gone = append(gone, c)
		}
	}
	r.electionsChangedLocked()
	m.mu.Unlock()

	r.shell.Do()
	for _, c := range gone {
		select {
		case <-c.withdrawn:
		case <-r.over: // it has ended all its terms, after a panic
		}
	}
}

// enter counts a user in. The first one starts the member.
func (m *Member) enter(ctx context.Context) error {
	door := m.doorway()
	select {
	case door <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-door }()
	if m.users == 0 {
		if err := m.start(); err != nil {
			return err
		}
	}
	m.users++
	return nil
}

// exit counts a user out. The last one stops the member, and waits for that.
func (m *Member) exit() {
	door := m.doorway()
	door <- struct{}{}
	defer func() { <-door }()
	if m.users--; m.users > 0 {
		return
	}
	m.stop()
	<-m.done
	m.eventsMu.Lock()
	ev := m.events
	m.events = nil
	m.eventsMu.Unlock()
	if ev != nil {
		m.seq = ev.close()
		m.observed = ev.done
	}
}

func (m *Member) doorway() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.door == nil {
		m.door = make(chan struct{}, 1)
	}
	return m.door
}

func (m *Member) start() error {
	if m.Store == nil {
		return errNoStore
	}
	cfg := m.Config.orDefault()
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if limited, ok := m.Store.(driver.WriteLimiter); ok {
		if err := cfg.ValidateWriteInterval(limited.WriteInterval()); err != nil {
			return fmt.Errorf("configuration: %w", err)
		}
	}
	if err := m.ownFacts(); err != nil {
		return err
	}
	if m.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("member has no ID, and the host no name: %w", err)
		}
		m.ID = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	if !driver.ValidName(driver.MemberRegister(m.ID)) || m.ID == anyone {
		return fmt.Errorf("member ID %q: must be 1 to %d bytes of UTF-8 without control characters, and not %q",
			m.ID, driver.MaxName-len(driver.MemberPrefix), anyone)
	}
	if m.clock == nil {
		if m.clock = m.Clock; m.clock == nil {
			m.clock = newSystemClock()
		}
	}
	if m.OnEvent != nil {
		m.eventsMu.Lock()
		m.events = newEvents(m.ID, m.seq, m.observed, m.observe, &m.stats.lost)
		m.eventsMu.Unlock()
	}
	var ctx context.Context
	ctx, m.stop = context.WithCancel(context.Background())
	m.done = make(chan struct{})
	r := m.newRun(cfg, false)
	go m.supervise(ctx, r)
	return nil
}

// supervise runs the member until ctx ends. After a panic of the driver it starts again, but not before every duty has
// stopped.
func (m *Member) supervise(ctx context.Context, r *run) {
	defer close(m.done)
	for {
		err := r.wait(ctx)
		if err == nil {
			return
		}
		m.emit(Event{Kind: EventCandidateRestarted, Metadata: map[string]string{"error": err.Error()}})
		r = m.newRun(r.cfg, true)
	}
}

// Emit passes an event of the user's own to OnEvent, in sequence with the member's. While the member does nothing it is dropped.
func (m *Member) Emit(e Event) { m.emit(e) }

func (m *Member) emit(e Event) {
	m.eventsMu.RLock()
	defer m.eventsMu.RUnlock()
	if m.events != nil {
		m.events.send(e)
	}
}

func validElection(name string) error {
	switch {
	case !driver.ValidName(name):
		return fmt.Errorf("election %q: the name must be 1 to %d bytes of UTF-8 without control characters", name, driver.MaxName)
	case strings.HasPrefix(name, driver.Reserved):
		return fmt.Errorf("election %q: names that begin with %q are reserved", name, driver.Reserved)
	}
	return nil
}
