// Package virtual runs tests in virtual time, and works around a crash of the race detector.
//
// The race detector of Go 1.26 crashes in a [testing/synctest] bubble: all timers of a bubble share one of its
// contexts, and two goroutines that receive from expired timers at the same time corrupt it. So a bubble under the race
// detector runs on one processor. The detector loses little by that, because it finds races by missing synchronization,
// not by their effects.
package virtual

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Test runs f in a bubble of virtual time, like [synctest.Test]. With the race detector, the whole process has one
// processor until its last bubble ends.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()

	if Raced {
		bubbles.enter()
		defer bubbles.leave()
	}

	synctest.Test(t, f)
}

var bubbles limit

// limit counts the bubbles that run. Tests may run in parallel, so only the last of them restores the processors.
type limit struct {
	mu         sync.Mutex
	running    int
	processors int // before the first of them
}

func (l *limit) enter() {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.running == 0 {
		l.processors = runtime.GOMAXPROCS(1)
	}
	l.running++
}

func (l *limit) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.running--
	if l.running == 0 {
		runtime.GOMAXPROCS(l.processors)
	}
}
