package regent

import (
	"context"
	"errors"
	"slices"
	"time"
)

// DutyState is the state of a duty.
type DutyState struct {
	Election  string    `json:"election"`
	Name      string    `json:"name"`
	Running   bool      `json:"running"`
	Started   time.Time `json:"started,omitzero"`
	Failures  uint64    `json:"failures"`  // since [Member.Run] was called
	InARow    int       `json:"inARow"`    // failures that count, without a run of 3 s that did not fail
	LastError string    `json:"lastError"` // empty if it never failed
	FailedAt  time.Time `json:"failedAt,omitzero"`
}

// dutyRecord is a duty and its state. The member's mutex guards the state.
type dutyRecord struct {
	Duty
	state  DutyState
	starts int // how often it was started
}

// Duties returns the states of the duties of [Member.Run], in their order. Duties without a Run are left out.
func (m *Member) Duties() []DutyState {
	m.mu.Lock()
	defer m.mu.Unlock()

	var all []DutyState
	for _, d := range m.duties {
		all = append(all, d.state)
	}
	return all
}

// addDuties keeps the states of those duties that have a Run, and returns them.
func (m *Member) addDuties(group []Duty) []*dutyRecord {
	m.mu.Lock()
	defer m.mu.Unlock()

	var added []*dutyRecord
	for _, d := range group {
		if d.Run != nil {
			added = append(added, &dutyRecord{Duty: d, state: DutyState{Election: d.Election, Name: d.Name}})
		}
	}

	m.duties = append(m.duties, added...)
	return added
}

// removeDuties ends what addDuties began.
func (m *Member) removeDuties(added []*dutyRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()

	removed := func(d *dutyRecord) bool { return slices.Contains(added, d) }
	m.duties = slices.DeleteFunc(m.duties, removed)
	m.failing = slices.DeleteFunc(m.failing, removed)
}

// dutyStarted takes in that a duty starts. If the duty has made the member unhealthy, the member is healthy again
// once the duty has run for half a minute. The function returned must be called when the duty has ended.
func (m *Member) dutyStarted(ctx context.Context, d *dutyRecord) (ended func()) {
	m.mu.Lock()
	d.state.Running = true
	d.state.Started = time.Now()
	d.starts++
	failing := slices.Contains(m.failing, d)
	m.mu.Unlock()
	if !failing {
		return func() {}
	}

	timer := m.clock.NewTimer(restartAfterMax)
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		defer timer.Stop()
		select {
		case <-timer.C:
			m.dutyRecovered(d)
		case <-stop:
		case <-ctx.Done():
		}
	}()

	return func() {
		close(stop)
		<-stopped
	}
}

// dutyFailed takes in that a duty has failed. Too many failures in a row make the member unhealthy. A failure of the
// store does not count: every other leader would have it too.
func (m *Member) dutyFailed(d *dutyRecord, err error) {
	r := m.countFailure(d, err)
	if r != nil {
		r.shell.Do()
	}
}

// countFailure is dutyFailed without its inputs to the core carried out: a run whose health has changed is returned.
func (m *Member) countFailure(d *dutyRecord, err error) *run {
	m.mu.Lock()
	defer m.mu.Unlock()

	before := m.unhealthyLocked()
	s := &d.state
	s.Running = false
	s.LastError = err.Error()
	s.FailedAt = time.Now()
	s.Failures++
	if errors.Is(err, ErrStore) || errors.Is(err, ErrNotLeader) {
		return nil
	}

	s.InARow++
	if s.InARow < failsTooOften {
		return nil
	}

	if !slices.Contains(m.failing, d) {
		m.failing = append(m.failing, d)
	}

	m.run.healthChangedLocked(before)
	return m.run
}

// dutyEnded takes in that a duty has returned nil, or that its term has ended. If it ran for a few seconds, its earlier
// failures no longer count. A duty that has made the member unhealthy has to run for half a minute.
func (m *Member) dutyEnded(d *dutyRecord, ran time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if ran >= steadyAfter && !slices.Contains(m.failing, d) {
		d.state.InARow = 0
	}
}

// dutyRecovered takes in that a duty has run without failing for half a minute, or may be tried again.
func (m *Member) dutyRecovered(d *dutyRecord) {
	m.mu.Lock()
	before := m.unhealthyLocked()
	d.state.InARow = 0
	r := m.run
	if r != nil {
		m.failing = slices.DeleteFunc(m.failing, func(o *dutyRecord) bool { return o == d })
		r.healthChangedLocked(before)
	}

	m.mu.Unlock()

	if r != nil {
		r.shell.Do()
	}
}

// dutyStopped takes in that the term of a duty has ended. If the duty has made the member unhealthy, it may be tried
// here again after a while.
func (m *Member) dutyStopped(d *dutyRecord) {
	m.mu.Lock()
	d.state.Running = false
	r := m.run
	failing := slices.Contains(m.failing, d)
	m.mu.Unlock()

	if failing && r != nil {
		r.recoverLater(d)
	}
}

// recoverLater makes the member healthy again after a while, unless the duty that made it unhealthy was started again.
func (r *run) recoverLater(d *dutyRecord) {
	starts := r.m.startsOf(d)
	r.wg.Go(func() {
		if r.sleep(retryUnhealthyAfter) && r.m.startsOf(d) == starts {
			r.m.dutyRecovered(d)
		}
	})
}

func (m *Member) startsOf(d *dutyRecord) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return d.starts
}

// recoverAll is recoverLater for all duties that made the member unhealthy in a run that has panicked.
func (r *run) recoverAll() {
	r.m.mu.Lock()
	failing := slices.Clone(r.m.failing)
	r.m.mu.Unlock()

	for _, d := range failing {
		r.recoverLater(d)
	}
}

// sleep waits for d. It reports false if the run has ended before.
func (r *run) sleep(d time.Duration) bool {
	t := r.m.clock.NewTimer(d)
	defer t.Stop()

	select {
	case <-t.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}
