package shell

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent/internal/core"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// readClock is a clock that goes on by being read, and calls a function at each reading.
type readClock struct {
	wallClock
	reads  atomic.Int64
	onRead func()
}

func (c *readClock) Now() time.Duration {
	n := c.reads.Add(1)
	if c.onRead != nil {
		c.onRead()
	}
	return time.Hour + time.Duration(n)
}

// counted returns a shell that has not joined, with a clock that counts its readings.
func counted() (*Shell, *readClock) {
	clock := &readClock{}
	s := New(Config{
		Core: core.New(clusterConfig("a"), Source{}), Store: memstore.New(), Clock: clock, Host: &process{},
		Cause: func(c core.Cause, _ string) error { return causeError(c) }, Panicked: func(error) {},
	})
	return s, clock
}

func TestStepReadsTheClock(t *testing.T) {
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { virtual.Test(t, f) })
	}

	run("once_for_the_inputs_that_have_come", func(t *testing.T) {
		s, clock := counted()
		defer s.Close()
		for range inputsAtOnce {
			s.Queue(core.Observed{Election: "e", Epoch: 1})
		}

		before := clock.reads.Load()
		s.Do()
		if n := clock.reads.Load() - before; n > 3 {
			t.Errorf("%d inputs have read the clock %d times", inputsAtOnce, n)
		}
	})

	run("after_an_input_has_come", func(t *testing.T) { // rule 2: an observer counts from after it received the answer
		s, clock := counted()
		defer s.Close()
		var came, taken core.Time
		clock.onRead = func() {
			clock.onRead = nil
			came = core.Time(time.Hour) + core.Time(clock.reads.Load())
			s.Queue(query{f: func(_ *core.Core, now core.Time) { taken = now }})
		}

		s.Do(core.Observed{Election: "e", Epoch: 1})
		if taken <= came {
			t.Errorf("an input that came at %d was taken in as of %d", came, taken)
		}
	})
}
