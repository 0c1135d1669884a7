package regent_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// slowStart is a clock that takes its time where a run starts: it widens the window between two runs of a member.
type slowStart struct{ start time.Time }

func (c *slowStart) Now() time.Duration {
	var callers [4]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for f, more := frames.Next(); more; f, more = frames.Next() {
		if strings.HasSuffix(f.Function, "newRun") {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return time.Since(c.start)
}

func (c *slowStart) NewTimer(d time.Duration) *time.Timer { return time.NewTimer(d) }

// TestCallsBetweenTwoRuns calls a member whose driver has panicked, before the next run has started.
func TestCallsBetweenTwoRuns(t *testing.T) {
	for name, call := range map[string]func(context.Context, *node) error{
		"retire": func(ctx context.Context, n *node) error { return n.Retire(ctx, "job", 0) },
		"lead":   func(ctx context.Context, n *node) error { return n.Lead(ctx, "x", nil) },
		"view": func(_ context.Context, n *node) error {
			n.View("anchor")
			n.Observe("anchor", 7)
			n.Stats()
			return nil
		},
		"watch": func(ctx context.Context, n *node) error {
			for range n.Watch(ctx, "x") {
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *cluster) { callBetweenTwoRuns(t, c, call) })
		})
	}
}

func callBetweenTwoRuns(t *testing.T, c *cluster, call func(context.Context, *node) error) {
	a := c.member("a")
	a.Clock = &slowStart{time.Now()}
	p := &panicky{Client: a.client}
	a.Store = p
	unused := driver.Record{Name: "job", Epoch: 3, Nonce: 5, Duration: time.Second}
	if _, err := c.store.Swap(c.ctx, unused); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(c.ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = a.Lead(ctx, "anchor", func(ctx context.Context, _ regent.Term) error {
			<-ctx.Done()
			return nil
		})
	})
	time.Sleep(time.Minute)

	wg.Go(func() {
		_ = a.Retire(ctx, "job", 0) // it ends with the run
		time.Sleep(5 * time.Millisecond)
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_ = call(limited, a)
	})
	time.Sleep(time.Minute)
	p.once.Store(true)
	time.Sleep(5 * time.Minute)
	if _, ok := a.Leads("anchor"); !ok {
		t.Error("the next run does not lead")
	}

	cancel()
	wg.Wait()
}

// A driver that panics must not take the caller with it.
func TestRequestsOverADriverThatPanics(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.member("a")
		a.Store = panickyReader{a.client}
		for name, call := range map[string]func() error{
			"pause":     func() error { return a.Pause(c.ctx, "seat") },
			"step_down": func() error { return a.StepDown(c.ctx, "seat") },
			"hand_off":  func() error { return a.HandOff(c.ctx, "seat", "b") },
		} {
			if err := call(); err == nil || !strings.Contains(err.Error(), "panic") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

type panickyReader struct{ driver.Store }

func (panickyReader) Get(context.Context, string) (driver.Record, error) { panic("no read") }

func TestElectionNamedLikeAll(t *testing.T) {
	bubble(t, func(c *cluster) {
		if err := c.member("a").Lead(c.ctx, "*", nil); err == nil {
			t.Error("an election may be named as all elections are")
		}
	})
}

// A caller without a deadline gets an error from a store that does not answer.
func TestRequestsOverAHungStore(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.member("a").lead()
		leader(t, time.Second, a)
		b := c.member("b")
		b.client.SetFaults(memstore.Faults{CutRequests: true})

		for name, call := range map[string]func() error{
			"pause":     func() error { return b.Pause(c.ctx, "seat") },
			"step_down": func() error { return b.StepDown(c.ctx, "seat") },
			"hand_off":  func() error { return b.HandOff(c.ctx, "seat", "a") },
		} {
			start := time.Now()
			if err := call(); !errors.Is(err, regent.ErrStore) || time.Since(start) > time.Minute {
				t.Errorf("%s, after %v: %v", name, time.Since(start), err)
			}
		}
		a.quit()
	})
}
