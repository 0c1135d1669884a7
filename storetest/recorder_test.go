package storetest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// recorder is a testing.TB that records failures, so that a test can expect a check to fail. Methods that it does not
// override panic, because the embedded TB is nil.
type recorder struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	failures []string
	skipped  bool
	cleanups []func()
}

// record runs a check as a test would, and returns its failures.
func record(t *testing.T, c check, open Open, timeout time.Duration) (failures []string, skipped bool) {
	ctx, cancel := context.WithCancel(t.Context())
	rec := &recorder{ctx: ctx}
	done := make(chan struct{})
	go func() { // a goroutine, because a failed check ends its own
		defer close(done)
		c.run(newRig(rec, open, timeout))
	}()

	<-done
	cancel()
	for i := len(rec.cleanups) - 1; i >= 0; i-- {
		rec.cleanups[i]()
	}

	rec.mu.Lock()
	defer rec.mu.Unlock()

	return rec.failures, rec.skipped
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) FailNow() { r.Fatalf("failed before") }

func (r *recorder) Skip(...any) {
	r.mu.Lock()
	r.skipped = true
	r.mu.Unlock()
	runtime.Goexit()
}
