package node

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/internal/virtual"
)

// results is a health check whose results a test decides.
type results struct {
	*HealthChecker
	why  atomic.Pointer[string] // the check fails with this; empty if it passes
	hang atomic.Bool            // until the timeout
	runs atomic.Int32
	stop context.CancelFunc
	done chan struct{}
}

func startChecks(c *HealthCheck) *results {
	r := &results{HealthChecker: NewHealthChecker(c), done: make(chan struct{})}
	r.fails("")
	r.run = func(ctx context.Context, c *HealthCheck) (check.Outcome, error) {
		r.runs.Add(1)
		if r.hang.Load() {
			<-ctx.Done()
			return check.Outcome{Message: "killed"}, nil
		}
		if why := *r.why.Load(); why == "missing" {
			return check.Outcome{}, errors.New("it cannot be run here")
		} else if why != "" {
			return check.Outcome{Message: why}, nil
		}
		return check.Outcome{OK: true}, nil
	}

	return r
}

// begin starts to check.
func (r *results) begin() *results {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() {
		defer close(r.done)
		r.Run(ctx)
	}()

	return r
}

func (r *results) fails(why string) { r.why.Store(&why) }

func (r *results) end() {
	r.stop()
	<-r.done
}

// failure returns why the node is unhealthy, after some time.
func (r *results) failure(after time.Duration) string {
	time.Sleep(after)
	synctest.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()

	if err := r.Unhealthy(ctx); err != nil {
		return err.Error()
	}
	return ""
}

func TestHealthChecker(t *testing.T) {
	disk := func() *HealthCheck {
		return &HealthCheck{
			Kind: "exec", Target: "disk", Interval: 5 * time.Second, Timeout: 2 * time.Second, Failures: 3,
		}
	}

	t.Run("N01_so_many_failures_in_a_row_make_a_node_unhealthy_and_one_pass_makes_it_healthy", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			r := startChecks(disk()).begin()
			defer r.end()
			if why := r.failure(time.Second); why != "" {
				t.Fatal(why)
			}

			r.fails("it is full")
			if why := r.failure(11 * time.Second); why != "" || r.state().Failures != 2 || !r.state().OK ||
				r.state().Error != "it is full" {
				t.Fatalf("after two failures: %q, %+v", why, r.state())
			}
			want := "health check (command disk) has failed 3 times in a row: it is full"
			if why := r.failure(5 * time.Second); why != want || r.state().OK {
				t.Fatalf("after three: %q, %+v", why, r.state())
			}

			r.fails("")
			if why := r.failure(5 * time.Second); why != "" || r.state().Failures != 0 || !r.state().OK {
				t.Fatalf("after it passed: %q", why)
			}
		})
	})

	t.Run("N01_failures_that_are_not_in_a_row_do_no_harm", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			r := startChecks(disk()).begin()
			defer r.end()
			r.failure(time.Second)
			for i := range 20 {
				r.fails([]string{"no", "no", ""}[i%3])
				if why := r.failure(5 * time.Second); why != "" {
					t.Fatalf("%d: %s", i, why)
				}
			}
		})
	})

	t.Run("N01_a_node_is_unhealthy_until_its_check_has_passed_once", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			r := startChecks(disk())
			if why := r.failure(0); why != errNotChecked.Error() {
				t.Fatalf("before the first check: %q", why)
			}

			r.fails("missing")
			r.begin()
			defer r.end()
			if why := r.failure(time.Second); !strings.Contains(why, "1 times in a row: it cannot be run here") {
				t.Fatalf("after one failure: %q", why)
			}
		})
	})

	t.Run("N01_the_first_result_is_waited_for", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			r := startChecks(disk())
			began := time.Now()
			time.AfterFunc(700*time.Millisecond, func() { r.begin() })
			if err := r.Unhealthy(context.Background()); err != nil || time.Since(began) != 700*time.Millisecond {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			r.end()
		})
	})

	t.Run("N01_a_check_that_hangs_fails_after_its_timeout_and_the_next_is_not_delayed", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			r := startChecks(disk()).begin()
			defer r.end()
			r.failure(time.Second)
			r.hang.Store(true)
			if why := r.failure(17 * time.Second); !strings.Contains(why, "3 times in a row: killed") ||
				r.runs.Load() != 4 {
				t.Errorf("%q after %d checks", why, r.runs.Load())
			}
		})
	})

	t.Run("N01_a_reload_replaces_the_check_and_its_result", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			r := startChecks(disk()).begin()
			defer r.end()
			r.fails("it is full")
			r.failure(20 * time.Second)

			other := disk()
			other.Target = "other"
			other.Failures = 1
			r.Replace(other)
			if why := r.failure(time.Second); !strings.Contains(why, "(command other) has failed 1 times") {
				t.Errorf("%q", why)
			}

			n := r.runs.Load()
			r.Replace(nil)
			if why := r.failure(time.Minute); why != "" || r.state() != nil || r.runs.Load() != n {
				t.Errorf("without a check: %q, %v, %d checks", why, r.state(), r.runs.Load()-n)
			}
		})
	})

	t.Run("N01_no_secret_of_the_check_is_shown", func(t *testing.T) {
		c := &HealthCheck{Kind: "http", Target: "http://user:hidden@localhost/?key=hidden"}
		d := &HealthCheck{Kind: "exec", Target: "psql", Options: map[string]string{"args": `["hidden"]`}}
		if got := c.name() + d.name(); strings.Contains(got, "hidden") {
			t.Error(got)
		}
	})
}
