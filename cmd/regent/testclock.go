package main

import (
	"os"
	"strings"
	"sync"
	"time"
)

// testClockFile is a variable that names a file with the error of the node's wall clock, as a duration. Only polls use
// this clock; no election depends on it. It is for tests: a process cannot have a wall clock of its own otherwise.
const testClockFile = "TEST_ONLY_REGENT_CLOCK_OFFSET_FILE"

// testClock returns a clock with the error in the file, or nil if no file is named. The file is read again every 100
// ms, so that a test can set the clock of a node that runs.
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

		now := time.Now()
		if now.Sub(read) >= every {
			read = now
			text, _ := os.ReadFile(file) // if it cannot be read, the offset stays
			if d, err := time.ParseDuration(strings.TrimSpace(string(text))); err == nil {
				offset = d
			}
		}

		return time.Now().Add(offset)
	}
}
