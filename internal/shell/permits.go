package shell

import (
	"slices"
	"time"

	"github.com/regentd/regent/internal/core"
)

// This file decides which requests are under way at once, and which wait.

const (
	maxActive = 32  // requests within their timeouts
	maxLate   = 256 // requests of a driver that goes on after its context has ended
)

type jobState uint8

const (
	jobWaits  jobState = iota // for a permit
	jobActive                 // it has one
	jobLate                   // its timeout has passed: another request has its permit
)

// admit returns those of new requests that have a permit. The others wait for one.
func (r *requests) admit(jobs []*job) []*job {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active+len(jobs) > maxActive {
		slices.SortStableFunc(jobs, func(a, b *job) int { return a.urgency() - b.urgency() })
	}

	run := jobs[:0]
	for _, j := range jobs {
		r.timeout = max(r.timeout, j.sends[0].Timeout)
		if r.active < maxActive {
			r.start(j)
			run = append(run, j)
			continue
		}

		k := j.urgency()
		r.waiting[k] = append(r.waiting[k], j)
	}

	r.watch()
	return run
}

// urgency orders requests that wait for a permit: heartbeats, which terms depend on, then other writes, then reads, and
// removals last, which nobody waits for.
func (j *job) urgency() int {
	switch {
	case slices.ContainsFunc(j.sends, func(s core.Send) bool { return s.Urgent }):
		return 0
	case j.verb == core.Swap:
		return 1
	case j.verb == core.Remove:
		return 3
	}

	return 2
}

// start gives a permit to a request: until it is done, or its timeout has passed and others wait. The mutex is held.
func (r *requests) start(j *job) {
	r.running = append(r.running, j)
	r.active++
	j.state = jobActive
}

// stop takes the permit from a request. The mutex is held.
func (r *requests) stop(j *job) {
	r.active--
	if i := slices.Index(r.running, j); i >= 0 {
		r.running = slices.Delete(r.running, i, i+1)
	}
}

// watch has permits taken from requests that go on after their timeouts, if others wait for one. The mutex is held.
func (r *requests) watch() {
	if r.limit != nil || r.late >= maxLate || len(r.running) == 0 || !r.waits() {
		return
	}

	first := r.running[0].until()
	for _, j := range r.running {
		if at := j.until(); at.Before(first) {
			first = at
		}
	}

	r.limit = time.AfterFunc(time.Until(first), func() {
		for _, next := range r.overdue() {
			go r.s.work(next)
		}
	})
}

// waits reports whether a request waits for a permit.
func (r *requests) waits() bool {
	return slices.ContainsFunc(r.waiting[:], func(w []*job) bool { return len(w) > 0 })
}

// until is when the timeout of a request has passed.
func (j *job) until() time.Time {
	at, _ := j.ctx.Deadline()
	return at
}

// overdue takes the permits from requests that go on after their timeouts, and returns the requests that have them now.
func (r *requests) overdue() []*job {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = nil
	now := time.Now()
	var run []*job
	for _, j := range slices.Clone(r.running) {
		if r.late >= maxLate || now.Before(j.until()) {
			continue
		}

		j.state = jobLate
		r.late++
		r.stop(j)
		run = append(run, r.next()...)
	}

	r.watch()
	return run
}

// done frees the permit of a request, and returns the request that has it now.
func (r *requests) done(j *job) []*job {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j.state == jobLate {
		r.late--
	} else {
		r.stop(j)
	}

	j.state = jobWaits
	j.cancel()
	next := r.next()
	r.watch()
	if r.idle != nil && r.active == 0 && r.late == 0 {
		close(r.idle)
		r.idle = nil
	}

	return next
}

// next gives a free permit to a request that waits. The mutex is held.
func (r *requests) next() []*job {
	if r.active >= maxActive {
		return nil
	}

	for k := range r.waiting {
		if len(r.waiting[k]) > 0 {
			j := r.waiting[k][0]
			r.waiting[k] = r.waiting[k][1:]
			r.start(j)
			return []*job{j}
		}
	}

	return nil
}

// wait returns when no request is under way, or after a timeout: a driver may not return when its context ends. The
// context of all requests has ended before.
func (r *requests) wait() {
	r.mu.Lock()
	if r.active == 0 && r.late == 0 {
		r.mu.Unlock()
		return
	}

	idle := make(chan struct{})
	r.idle = idle
	timeout := r.timeout
	r.mu.Unlock()

	limit := time.NewTimer(timeout)
	defer limit.Stop()
	select {
	case <-idle:
	case <-limit.C:
	}
}
