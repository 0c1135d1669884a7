package main

import (
	"os"
	"strings"
	"sync"
	"time"
)

// testClockFile names a file with the duration by which the node's wall clock is wrong, as far as polls go. It is
// for tests alone: no clock of a process can be set otherwise. Nothing that elections depend on looks at it.
const testClockFile = "TEST_ONLY_REGENT_CLOCK_OFFSET_FILE"

// testClock returns a clock that is wrong by what the file says, or nil if no file is named. The file is read
// again after a while, so that a clock can be set while a node runs.
func testClock(file string) func() time.Time {
	if file == "" {
		return nil
	}
	const every = 100 * time.Millisecond
	var mu sync.Mutex
	var read time.Time
	var offset time.Duration
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(read) >= every {
			read = now
			text, _ := os.ReadFile(file) // an offset that cannot be read stays as it was
			if d, err := time.ParseDuration(strings.TrimSpace(string(text))); err == nil {
				offset = d
			}
		}
		return time.Now().Add(offset)
	}
}
