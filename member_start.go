package regent

import (
	"context"
	"fmt"
	"os"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// campaign adds candidates, all or none.
func (m *Member) campaign(ctx context.Context, cs ...*candidate) error {
	r, err := m.join(ctx, cs...)
	if err != nil {
		return err
	}

	r.shell.Do()
	return nil
}

// join counts a user of the member, and queues the campaigns of its candidates, all or none, for the run that it
// returns.
func (m *Member) join(ctx context.Context, cs ...*candidate) (*run, error) {
	for _, c := range cs {
		if err := validElection(c.election); err != nil {
			return nil, err
		}
	}

	if err := m.enter(ctx); err != nil {
		return nil, err
	}

	r, err := m.addCandidates(cs)
	if err != nil {
		m.exit()
		return nil, err
	}
	return r, nil
}

// addCandidates queues the campaigns of candidates, all or none, for the run that it returns.
func (m *Member) addCandidates(cs []*candidate) (*run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()

	for _, c := range cs {
		if m.cands[c.election] != nil {
			return nil, fmt.Errorf("election %q: %w", c.election, ErrCandidate)
		}
	}

	if m.cands == nil {
		m.cands = map[string]*candidate{}
	}

	in := make([]core.Input, len(cs))
	for i, c := range cs {
		m.cands[c.election] = c
		in[i] = core.Campaign{Election: c.election}
	}

	m.run.shell.Queue(in...)
	m.run.electionsChangedLocked()
	return m.run, nil
}

// withdraw removes candidates. It returns when their duties have stopped and their elections are released.
func (m *Member) withdraw(cs ...*candidate) {
	m.mu.Lock()
	r := m.run
	var gone []*candidate
	for _, c := range cs {
		if m.cands[c.election] != c {
			continue
		}

		delete(m.cands, c.election)
		c.withdrawn = make(chan struct{})
		r.withdrawals[c.election] = append(r.withdrawals[c.election], c)
		r.shell.Queue(core.Withdraw{Election: c.election})
		gone = append(gone, c)
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

// enter counts a user of the member. The first user starts it.
func (m *Member) enter(ctx context.Context) error {
	lock := m.startStopLock()
	select {
	case lock <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}

	defer func() { <-lock }()

	if m.users == 0 {
		if err := m.start(); err != nil {
			return err
		}
	}

	m.users++
	return nil
}

// exit ends what enter began. The last user stops the member, and waits until it has stopped.
func (m *Member) exit() {
	lock := m.startStopLock()
	lock <- struct{}{}
	defer func() { <-lock }()

	m.users--
	if m.users > 0 {
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

func (m *Member) startStopLock() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.startStop == nil {
		m.startStop = make(chan struct{}, 1)
	}
	return m.startStop
}

// start checks the member's configuration and starts its first run.
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
	if err := m.checkID(); err != nil {
		return err
	}

	if m.clock == nil {
		m.clock = m.Clock
	}
	if m.clock == nil {
		m.clock = newSystemClock()
	}
	if m.OnEvent != nil {
		m.eventsMu.Lock()
		m.events = newEvents(m.ID, m.seq, m.observed, m.observe, &m.stats.lost)
		m.eventsMu.Unlock()
	}

	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.done = make(chan struct{})
	r := m.newRun(cfg, false)
	go m.supervise(ctx, r)
	return nil
}

// checkID returns an error if the member's ID cannot be that of a member. An empty ID gets its default.
func (m *Member) checkID() error {
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

	return nil
}

// supervise runs the member until ctx ends. After a panic of the driver it starts another run, when every duty has
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
