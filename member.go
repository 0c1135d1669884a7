package regent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
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
	stop  context.CancelCauseFunc
	done  chan struct{}

	clock    Clock
	eventsMu sync.RWMutex
	events   *events
	observed <-chan struct{} // closed when OnEvent has returned from the last event of the run before
	seq      uint64
	stats    counters
	terms    sync.Map // election -> *term, the believed ones
	checkup  *checkup // the last health check: of the engine's loop that asks for them, one after the other

	mu      sync.Mutex // guards all below, and the engine's state
	engine  *engine
	cands   map[string]*candidate
	watched map[string]int
	memory  map[string]uint64 // the highest epoch seen of each election: outlives the engine (rule 5)
	fences  map[string]*Fence
	endings []driver.Identity // incarnations that this process has ended
	ended   map[string]uint64 // the epoch of the last own term of each election whose end was reported
	ends    []lifeEnd         // how the lives of this process ended, the latest ones
	runs    uint64            // the count of its last incarnation
	blocked string            // why it cannot join
	duties  []*dutyRecord
	ailing  []*dutyRecord // those that fail too often
}

// Lead campaigns for an election until ctx ends, and runs f for each term that it wins. The context that f gets ends when the term does,
// and its cause says why; f must then return, and only after it has is the seat released. A lost term is followed by the next campaign.
//
// Lead returns the cause of ctx; or, if f returns while its term still holds, what f returned.
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
		m.withdraw(ErrShutdown, c)
		select {
		case err := <-c.result: // it came first
			return err
		default:
			return context.Cause(ctx)
		}
	}
}

// Leads returns the term in which this member leads the election now, by its deadline.
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
	defer m.mu.Unlock()
	if epoch < maxEpoch && epoch <= m.memory[election]+maxJump {
		m.learn(election, epoch)
	}
}

// Fence returns the member's own fence for an election. It learns each epoch that the member sees, and its refusals count in [Member.Stats]. It
// is kept in memory: for one that survives a restart make a Fence with a Path, and do not set that of this one.
func (m *Member) Fence(election string) *Fence {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.fences[election]
	if f == nil {
		cfg := m.Config.orDefault()
		f = &Fence{Grace: cfg.EpochGracePeriod, Off: !cfg.EpochFencingEnabled, drifts: &m.stats.drifts}
		if m.fences == nil {
			m.fences = map[string]*Fence{}
		}
		m.fences[election] = f
		_ = f.Learn(Token{Epoch: m.memory[election]}) // it has no file that could fail
	}
	return f
}

// exhausted reports whether no term can follow an epoch: its successor is one that no fence accepts.
func exhausted(epoch uint64) bool { return epoch >= maxEpoch-1 }

// learn keeps the highest epoch. One that no term can follow is not kept: no term has reached it by counting, and nobody
// could claim the election as long as this process lives. The mutex is held.
func (m *Member) learn(election string, epoch uint64) {
	if epoch <= m.memory[election] || exhausted(epoch) {
		return
	}
	if m.memory == nil {
		m.memory = map[string]uint64{}
	}
	m.memory[election] = epoch
	if m.engine != nil {
		if s := m.engine.seats[election]; s != nil {
			s.learned = m.engine.moment().order
			s.stale = s.stale || s.seen && s.lease.Epoch < epoch // nothing is claimed on a record that is known to be old
		}
	}
	if f := m.fences[election]; f != nil {
		_ = f.Learn(Token{Epoch: epoch}) // which term has it the first work tells
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
	for _, c := range cs {
		m.cands[c.election] = c
		m.engine.seat(c.election).cand = c
	}
	e := m.engine
	e.info = nil
	e.joinIfNeeded()
	m.mu.Unlock()
	e.kick()
	return nil
}

// withdraw takes candidates back, and returns when their duties have stopped and their seats are released.
func (m *Member) withdraw(cause error, cs ...*candidate) {
	m.mu.Lock()
	e := m.engine
	var terms []*term
	for _, c := range cs {
		if m.cands[c.election] == c {
			delete(m.cands, c.election)
		}
		if s := e.seats[c.election]; s != nil && s.cand == c {
			s.cand = nil
			if s.term != nil {
				terms = append(terms, s.term)
			}
			e.dismiss(s)
		}
	}
	e.info = nil
	m.mu.Unlock()
	e.end(cause, "", terms...)
	for _, t := range terms {
		<-t.finished
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
	m.stop(ErrShutdown)
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
		return errors.New("member has no Store: set one before its first use")
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
	ctx, m.stop = context.WithCancelCause(context.Background())
	m.done = make(chan struct{})
	m.mu.Lock()
	m.engine = newEngine(ctx, m, cfg)
	m.mu.Unlock()
	go m.supervise(ctx, cfg)
	return nil
}

// supervise runs one engine after another until ctx ends: a member whose own loop dies starts again, but not before every duty of the
// dead one has stopped.
func (m *Member) supervise(ctx context.Context, cfg Config) {
	defer close(m.done)
	for {
		err := m.engine.run()
		if ctx.Err() != nil {
			return
		}
		m.emit(Event{Kind: EventCandidateRestarted, Metadata: map[string]string{"error": err.Error()}})
		m.mu.Lock()
		for _, s := range m.engine.seats {
			m.engine.notify(s) // so that those who watch it look at the new one
		}
		m.engine = newEngine(ctx, m, cfg)
		m.engine.again = true
		for name, c := range m.cands {
			m.engine.seat(name).cand = c
		}
		for name, n := range m.watched {
			m.engine.seat(name).watchers = n
		}
		m.mu.Unlock()
		m.engine.sleep(ctx, time.Second)
	}
}

// seat returns the seat of an election, new if need be. The mutex is held.
func (e *engine) seat(name string) *seat {
	s := e.seats[name]
	if s == nil {
		s = &seat{name: name}
		e.seats[name] = s
		e.renamed = true
	}
	return s
}

// dismiss forgets a seat that nobody is interested in any more. The mutex is held.
func (e *engine) dismiss(s *seat) {
	if s.cand == nil && s.watchers == 0 && s.term == nil && len(s.claims) == 0 && !e.mine(s, s.lease.Holder) {
		delete(e.seats, s.name)
		delete(e.sights, s.name)
		e.renamed = true
	}
}

func (m *Member) hasEnded(who driver.Identity) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.endings, who)
}

// hasNowEnded remembers an incarnation that this process has ended, so that its next may join over it. Only the latest can still show up.
func (m *Member) hasNowEnded(who driver.Identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.endings, who) {
		m.endings = append(m.endings[max(0, len(m.endings)-63):], who)
	}
}

// nextIncarnation returns the count of the next incarnation, given what the member's register shows. It grows even where
// the store has forgotten the last one.
func (m *Member) nextIncarnation(shown uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs = max(m.runs, shown) + 1
	return m.runs
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
