package regent

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Duty is work that runs only while its member leads.
type Duty struct {
	Election string
	Name     string // for events and [Member.Duties]; may be empty

	// Run is the work. It must return soon after its context has ended. If Run returns an error while the term holds,
	// it is run again, with a backoff. If it returns nil, it has nothing more to do in this term: the member goes on
	// leading, and Run is called again in the next term. That is different from [Member.Lead], where nil ends the
	// campaign.
	//
	// A Run that keeps failing makes its member unhealthy, so that another candidate leads, if there is one. An error
	// that wraps [ErrStore] or [ErrNotLeader] does not count: another leader would have the same store.
	//
	// If Run is nil, the member leads and runs nothing: see [Member.Leads].
	Run func(context.Context, Term) error
}

// A failed duty is run again after a second, then after twice that, up to half a minute. If it ran for longer than
// half a minute, the backoff begins anew. If it ran for a few seconds and had not failed when its term ended, its
// failures before that do not count as failures in a row.
const (
	restartAfter    = time.Second
	restartAfterMax = 30 * time.Second
	steadyAfter     = 3 * time.Second
)

// A duty that has failed so often in a row makes its member unhealthy until it has run for half a minute. If another
// member has taken over, it is tried here again after a minute.
const (
	failsTooOften       = 5
	retryUnhealthyAfter = time.Minute
)

// Run campaigns for the elections of all duties until ctx ends, and returns the cause of ctx. Duties of one election
// are started in order when a term is won, without waiting for each other. When the term ends, they are stopped in
// reverse order, each within its share of the stop timeout; if the lease was lost, all at once.
//
// A duty without a Run costs no goroutine, unless its election has a lease of its own: so a member can lead a great
// many elections.
func (m *Member) Run(ctx context.Context, duties ...Duty) error {
	groups := map[string][]Duty{}
	for _, d := range duties {
		groups[d.Election] = append(groups[d.Election], d)
	}

	cs := make([]*candidate, 0, len(groups))
	for election, group := range groups {
		c := newCandidate(ctx, election)
		if added := m.addDuties(group); len(added) > 0 {
			c.run = func(ctx context.Context, t Term) error { return m.runDuties(ctx, t, added) }
			defer m.removeDuties(added)
		}

		cs = append(cs, c)
	}

	if err := m.campaign(ctx, cs...); err != nil {
		return err
	}

	defer m.exit()
	<-ctx.Done()
	m.withdraw(cs...)
	return context.Cause(ctx)
}

// runDuties starts the duties in order. When ctx ends it stops them in reverse order.
func (m *Member) runDuties(ctx context.Context, t Term, duties []*dutyRecord) error {
	running := make([]runningDuty, len(duties))
	for i, d := range duties {
		running[i] = m.startDuty(ctx, t, d)
	}

	<-ctx.Done()

	// Each duty has its share of the stop timeout before the next one is stopped. If the lease is lost there is no
	// time for that: all are stopped at once.
	turn := m.Config.orDefault().StopTimeout / time.Duration(len(duties))
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrLost) || errors.Is(cause, ErrPartitioned) || errors.Is(cause, ErrPanicked) {
		turn = 0
	}

	for _, d := range slices.Backward(running) {
		m.stopDuty(d, cause, turn)
	}
	for _, d := range running {
		<-d.done
	}
	return nil
}

// runningDuty is a duty that was started in a term.
type runningDuty struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the duty has returned
}

// startDuty starts a duty. Its context does not end with ctx, so that duties can be stopped one after the other.
func (m *Member) startDuty(ctx context.Context, t Term, d *dutyRecord) runningDuty {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := runningDuty{cancel, make(chan struct{})}
	go func() {
		defer close(r.done)
		m.runDuty(own, t, d)
	}()

	return r
}

// stopDuty stops a duty, and waits for it no longer than its turn.
func (m *Member) stopDuty(d runningDuty, cause error, turn time.Duration) {
	d.cancel(cause)

	limit := m.clock.NewTimer(turn)
	defer limit.Stop()
	select {
	case <-d.done:
	case <-limit.C:
	}
}

// runDuty runs a duty until it returns nil or the term ends. If the duty fails, it is run again after a backoff.
func (m *Member) runDuty(ctx context.Context, t Term, d *dutyRecord) {
	defer m.dutyStopped(d)

	for wait := restartAfter; ; wait = min(2*wait, restartAfterMax) {
		began := m.clock.Now()
		ended := m.dutyStarted(ctx, d)
		err := protect(func() error { return d.Run(ctx, t) })
		ended()
		if err == nil || ctx.Err() != nil {
			m.dutyEnded(d, m.clock.Now()-began)
			return
		}

		m.stats.dutyFailures.Add(1)
		if m.clock.Now()-began > restartAfterMax {
			wait = restartAfter
			m.dutyRecovered(d)
		}

		m.emit(Event{
			Kind: EventDutyFailed, Election: t.Election, Epoch: t.Epoch,
			Metadata: map[string]string{"duty": d.Name, "error": err.Error()},
		})

		m.dutyFailed(d, err)

		timer := m.clock.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
