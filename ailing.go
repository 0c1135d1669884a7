package regent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/regentd/regent/internal/core"
)

// DutyState is how a duty fares.
type DutyState struct {
	Election  string    `json:"election"`
	Name      string    `json:"name"`
	Running   bool      `json:"running"`
	Started   time.Time `json:"started,omitzero"`
	Failures  uint64    `json:"failures"`  // since its Run was called
	InARow    int       `json:"inARow"`    // of these, by its own fault and without half a minute's work in between
	LastError string    `json:"lastError"` // empty if it never failed
	FailedAt  time.Time `json:"failedAt,omitzero"`
}

// dutyRecord is a duty, and how it fares. The member's mutex guards the state.
type dutyRecord struct {
	Duty
	state DutyState
	spell int // counts its starts
}

// Duties returns how the duties of [Member.Run] fare, in their order. Those with nothing to run are left out.
func (m *Member) Duties() []DutyState {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []DutyState
	for _, d := range m.duties {
		all = append(all, d.state)
	}
	return all
}

// dutiesToRun makes the records of those duties that have something to run.
func (m *Member) dutiesToRun(group []Duty) []*dutyRecord {
	m.mu.Lock()
	defer m.mu.Unlock()
	var run []*dutyRecord
	for _, d := range group {
		if d.Run != nil {
			run = append(run, &dutyRecord{Duty: d, state: DutyState{Election: d.Election, Name: d.Name}})
		}
	}
	m.duties = append(m.duties, run...)
	return run
}

func (m *Member) forgetDuties(run []*dutyRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range run {
		same := func(o *dutyRecord) bool { return o == d }
		m.duties = slices.DeleteFunc(m.duties, same)
		m.ailing = slices.DeleteFunc(m.ailing, same)
	}
}

// dutyStarted notes the start of a duty. If it has failed too often, and now does not, its member is well again; the function returned must be
// called when the duty has ended.
func (m *Member) dutyStarted(ctx context.Context, d *dutyRecord) func() {
	m.mu.Lock()
	d.state.Running, d.state.Started = true, time.Now()
	d.spell++
	ails := slices.Contains(m.ailing, d)
	m.mu.Unlock()
	if !ails {
		return func() {}
	}
	timer := m.clock.NewTimer(restartAfterMax)
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		defer timer.Stop()
		select {
		case <-timer.C:
			m.dutyWell(d)
		case <-ended:
		case <-ctx.Done():
		}
	}()
	return func() { close(ended); <-gone }
}

// dutyFailed notes a failure. Too many in a row make the member unhealthy, unless the store has failed: every other
// leader would fail by that too.
func (m *Member) dutyFailed(d *dutyRecord, err error) {
	m.mu.Lock()
	s := &d.state
	s.Running, s.LastError, s.FailedAt = false, err.Error(), time.Now()
	s.Failures++
	excused := errors.Is(err, ErrStore) || errors.Is(err, ErrNotLeader)
	if !excused {
		s.InARow++
	}
	if excused || s.InARow < failsTooOften {
		m.mu.Unlock()
		return
	}
	r := m.run
	r.healthChangesLocked(func() {
		if !slices.Contains(m.ailing, d) {
			m.ailing = append(m.ailing, d)
		}
	})
	m.mu.Unlock()
	r.shell.Do()
}

// dutyEnded notes that a duty has run for some time and not failed until it had no more to do, or its term ended: what
// failed before it was not in a row with what fails next. One that has made the member unhealthy has to run for longer.
func (m *Member) dutyEnded(d *dutyRecord, ran time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ran >= steadyAfter && !slices.Contains(m.ailing, d) {
		d.state.InARow = 0
	}
}

// dutyWell notes that a duty runs as it should.
func (m *Member) dutyWell(d *dutyRecord) {
	m.mu.Lock()
	d.state.InARow = 0
	r := m.run
	if r == nil {
		m.mu.Unlock()
		return
	}
	r.healthChangesLocked(func() { m.ailing = slices.DeleteFunc(m.ailing, func(o *dutyRecord) bool { return o == d }) })
	m.mu.Unlock()
	r.shell.Do()
}

// dutyStopped follows the end of a duty's term. If it made the member ill, that passes after a while: then it may be tried here again.
func (m *Member) dutyStopped(d *dutyRecord) {
	m.mu.Lock()
	d.state.Running = false
	r := m.run
	ails := slices.Contains(m.ailing, d)
	m.mu.Unlock()
	if ails && r != nil {
		r.recover(d)
	}
}

// recover lets a duty that made the member unhealthy be tried here again after a while, if it is not being tried already.
func (r *run) recover(d *dutyRecord) {
	r.m.mu.Lock()
	spell := d.spell
	r.m.mu.Unlock()
	r.wg.Go(func() {
		if !r.sleep(convalescence) {
			return
		}
		r.m.mu.Lock()
		again := d.spell != spell // it is judged by that
		r.m.mu.Unlock()
		if !again {
			r.m.dutyWell(d)
		}
	})
}

// recoverAll goes on where a run that died has left off.
func (r *run) recoverAll() {
	r.m.mu.Lock()
	ailing := slices.Clone(r.m.ailing)
	r.m.mu.Unlock()
	for _, d := range ailing {
		r.recover(d)
	}
}

// sleep reports whether it has slept in full, before the run ended.
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

// illLocked is why the member should not lead: its health check, or a duty that keeps failing.
func (m *Member) illLocked() error {
	if m.sick != nil || len(m.ailing) == 0 {
		return m.sick
	}
	d := m.ailing[0]
	return fmt.Errorf("duty %s of %s has failed %d times in a row: %s", d.Name, d.Election, d.state.InARow, d.state.LastError)
}

// healthChangesLocked makes a change to what the member's health depends on, and tells the core and the event stream. A Do must
// follow.
func (r *run) healthChangesLocked(change func()) {
	m := r.m
	before := m.illLocked()
	change()
	after := m.illLocked()
	r.shell.Queue(core.Health{Healthy: m.sick == nil, DutyFailing: len(m.ailing) > 0})

	first := errors.Is(before, errUnchecked)
	if !first && (after == nil) == (before == nil) {
		return
	}
	r.sayLocked()
	if first && after == nil {
		return
	}
	meta := map[string]string{"healthy": fmt.Sprint(after == nil)}
	if after != nil {
		meta["error"] = after.Error()
	}
	m.emit(Event{Kind: EventHealthChanged, Metadata: meta})
}
