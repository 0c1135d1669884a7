package runner

import (
	"bufio"
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// supervised is one call of Supervise in the background.
type supervised struct {
	t      *testing.T
	store  *memstore.Store
	member *regent.Member
	cmd    *Command
	out    *bufio.Reader
	cancel context.CancelCauseFunc
	code   chan int
	err    error
}

func member(store driver.Store, id string) *regent.Member {
	cfg := regent.Lock()
	cfg.LeaseDuration = 10 * time.Second
	cfg.StopTimeout = 2 * time.Second
	cfg.RenewInterval = 200 * time.Millisecond
	cfg.ElectionInterval = 100 * time.Millisecond
	cfg.HeartbeatInterval = 100 * time.Millisecond

	return &regent.Member{Store: store, ID: id, Config: cfg}
}

func supervise(t *testing.T, store *memstore.Store, script string, p Policy) *supervised {
	t.Helper()
	y := &supervised{t: t, store: store, member: member(store, "ada"), code: make(chan int, 1)}
	y.cmd, y.out = shell(t, script)
	y.cmd.Node, y.cmd.StopTimeout = "", 2*time.Second
	ctx, cancel := context.WithCancelCause(context.Background())
	y.cancel = cancel

	done := make(chan struct{})
	go func() {
		defer close(done)
		var code int
		code, y.err = Supervise(ctx, y.member, "jobs", y.cmd, p)
		y.code <- code
	}()

	t.Cleanup(func() {
		cancel(nil)
		<-done
	})
	return y
}

func (y *supervised) says(want string) {
	y.t.Helper()
	if got := line(y.t, y.out); got != want {
		y.t.Fatalf("it says %q, not %q", got, want)
	}
}

func (y *supervised) exits(want int) error {
	y.t.Helper()

	select {
	case code := <-y.code:
		if code != want {
			y.t.Errorf("exit code %d, not %d: %v", code, want, y.err)
		}
	case <-time.After(within):
		y.t.Fatal("it does not end")
	}

	return y.err
}

// vacant checks that the election was released, and why.
func (y *supervised) vacant(reason string) {
	y.t.Helper()
	l, err := y.store.Get(y.t.Context(), "jobs")
	if err != nil || !l.Vacant() || l.Past[len(l.Past)-1].Reason != reason {
		y.t.Errorf("%+v, %v", l, err)
	}
}

// rival leads the election until leave is called.
func rival(t *testing.T, store driver.Store) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	leads := make(chan struct{})

	done := make(chan struct{})
	go func() {
		defer close(done)

		_ = member(store, "bob").Lead(ctx, "jobs", func(ctx context.Context, _ regent.Term) error {
			close(leads)
			<-ctx.Done()
			return nil
		})
	}()

	<-leads
	leave = func() {
		cancel()
		<-done
	}
	t.Cleanup(leave)
	return leave
}

// stepDown makes the member lose its term.
func (y *supervised) stepDown() {
	y.t.Helper()
	if err := y.member.StepDown(y.t.Context(), "jobs"); err != nil {
		y.t.Fatal(err)
	}
}

const forever = `echo "epoch $REGENT_EPOCH of $REGENT_NODE"; exec sleep 1000`

func TestSupervise(t *testing.T) {
	t.Run("a_program_that_exits_ends_it_with_its_code_and_releases_the_election", func(t *testing.T) {
		for _, c := range []struct {
			script string
			code   int
		}{{"exit 0", 0}, {"exit 42", 42}, {"kill -9 $$", 137}} {
			y := supervise(t, memstore.New(), c.script, Policy{})
			if err := y.exits(c.code); err != nil {
				t.Error(err)
			}
			y.vacant("returned")
		}
	})

	t.Run("a_lost_term_stops_the_command_and_exits_with_90", func(t *testing.T) {
		y := supervise(t, memstore.New(), forever, Policy{})
		y.says("epoch 1 of ada")
		y.stepDown()
		if err := y.exits(ExitLost); !errors.Is(err, ErrLost) || !errors.Is(err, regent.ErrSteppedDown) {
			t.Error(err)
		}
	})

	t.Run("a_store_out_of_reach_is_a_loss_and_stops_the_program_before_the_lease_expires", func(t *testing.T) {
		y := supervise(t, memstore.New(), `trap '' TERM; echo $$; while :; do sleep 1000; done`, Policy{})
		pid := number(t, y.out)
		began := time.Now()
		y.store.SetFaults(memstore.Faults{Outage: true})

		if err := y.exits(ExitLost); !errors.Is(err, regent.ErrPartitioned) {
			t.Error(err)
		}
		if took := time.Since(began); lives(pid) {
			t.Errorf("it lives after %v", took)
		}
	})

	t.Run("restart_runs_it_again_in_the_next_term", func(t *testing.T) {
		y := supervise(t, memstore.New(), forever, Policy{Restart: true})
		y.says("epoch 1 of ada")
		y.stepDown()
		y.says("epoch 2 of ada")
		send(t, y.cmd, syscall.SIGKILL) // and when it fails, in the same one
		y.says("epoch 2 of ada")
		y.cancel(&SignalError{syscall.SIGTERM})

		if err := y.exits(128 + 15); err != nil {
			t.Error(err)
		}
		y.vacant("shutdown")
	})

	t.Run("a_signal_to_end_that_comes_while_a_lost_term_stops_the_command_is_not_lost_with_it", func(t *testing.T) {
		const script = `trap 'echo stops; sleep 0.5; exit 0' TERM; echo runs; while :; do sleep 0.01; done`
		y := supervise(t, memstore.New(), script, Policy{Restart: true})
		y.says("runs")
		go func() { _ = y.member.StepDown(t.Context(), "jobs") }() // it waits for the command
		y.says("stops")
		y.cmd.pass(syscall.SIGTERM, y.cancel)

		if err := y.exits(0); err != nil {
			t.Error(err)
		}
	})

	t.Run("restart_does_not_run_it_again_when_it_has_ended_by_a_signal_to_this_process", func(t *testing.T) {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
			y := supervise(t, memstore.New(), `ulimit -c 0; `+forever, Policy{Restart: true})
			y.says("epoch 1 of ada")
			y.cmd.pass(sig, y.cancel)

			if err := y.exits(128 + int(sig)); err != nil {
				t.Error(err)
			}
		}
	})

	t.Run("restart_runs_it_again_when_it_fails_after_a_signal_that_it_has_used_for_something_else", func(t *testing.T) {
		const script = `trap 'echo reloads' HUP; echo runs; while :; do sleep 0.01; done`
		y := supervise(t, memstore.New(), script, Policy{Restart: true})
		y.says("runs")
		y.cmd.pass(syscall.SIGHUP, y.cancel)
		y.says("reloads")
		send(t, y.cmd, syscall.SIGKILL)
		y.says("runs")
		y.cmd.pass(syscall.SIGTERM, y.cancel)

		if err := y.exits(128 + 15); err != nil {
			t.Error(err)
		}
	})

	t.Run("restart_ends_with_success", func(t *testing.T) {
		dir := t.TempDir()
		y := supervise(t, memstore.New(), `[ -e `+dir+`/second ] && exit 0; touch `+dir+`/second; exit 1`,
			Policy{Restart: true})
		if err := y.exits(0); err != nil {
			t.Error(err)
		}
	})

	t.Run("restart_lets_others_try_after_three_failures", func(t *testing.T) {
		y := supervise(t, memstore.New(), `echo "epoch $REGENT_EPOCH"; exit 1`, Policy{Restart: true})
		for range failuresPerTerm {
			y.says("epoch 1")
		}
		rival(t, y.store)
	})

	t.Run("an_election_that_is_not_won_in_time_is_75_and_nothing_was_run", func(t *testing.T) {
		store := memstore.New()
		rival(t, store)
		y := supervise(t, store, "echo never", Policy{Timeout: 100 * time.Millisecond})
		if err := y.exits(ExitNotAcquired); !errors.Is(err, ErrNotAcquired) ||
			!strings.Contains(err.Error(), "--timeout 100ms: bob holds it") {
			t.Error(err)
		}
		if n := y.out.Buffered(); n > 0 {
			t.Error("it ran")
		}
	})

	t.Run("without_waiting_a_leader_that_lives_is_75_and_is_named", func(t *testing.T) {
		store := memstore.New()
		rival(t, store)
		y := supervise(t, store, "echo never", Policy{NoWait: true})
		if err := y.exits(ExitNotAcquired); !errors.Is(err, ErrNotAcquired) ||
			!strings.Contains(err.Error(), "--no-wait: bob leads") {
			t.Error(err)
		}
	})

	t.Run("without_waiting_a_paused_election_is_75", func(t *testing.T) {
		store := memstore.New()
		if err := member(store, "bob").Pause(t.Context(), "jobs"); err != nil {
			t.Fatal(err)
		}
		y := supervise(t, store, "echo never", Policy{NoWait: true})
		if err := y.exits(ExitNotAcquired); !errors.Is(err, ErrNotAcquired) ||
			!strings.Contains(err.Error(), "--no-wait: the election is paused") {
			t.Error(err)
		}
		y = supervise(t, store, "echo never", Policy{Timeout: 100 * time.Millisecond})
		if err := y.exits(ExitNotAcquired); err == nil ||
			!strings.Contains(err.Error(), "--timeout 100ms: the election is paused") {
			t.Error(err)
		}
	})

	t.Run("without_waiting_a_dead_leader_is_replaced", func(t *testing.T) {
		store := memstore.New()
		dead := driver.Record{Name: "jobs", Holder: driver.Identity{ID: "bob", Incarnation: "x"}, Epoch: 1, Nonce: 1,
			Duration: 500 * time.Millisecond}
		if _, err := store.Swap(t.Context(), dead); err != nil {
			t.Fatal(err)
		}
		y := supervise(t, store, `echo "epoch $REGENT_EPOCH"`, Policy{NoWait: true})
		y.says("epoch 2")
		if err := y.exits(0); err != nil {
			t.Error(err)
		}
	})

	t.Run("an_election_that_is_won_in_time_is_kept_beyond_it", func(t *testing.T) {
		store := memstore.New()
		leave := rival(t, store)
		y := supervise(t, store, "echo first; sleep 4; exit 6", Policy{Timeout: 3 * time.Second})
		leave()
		y.says("first")

		if err := y.exits(6); err != nil {
			t.Error(err)
		}
	})

	t.Run("a_signal_while_it_campaigns_is_128_plus_n", func(t *testing.T) {
		store := memstore.New()
		rival(t, store)
		y := supervise(t, store, "echo never", Policy{})
		y.cancel(&SignalError{syscall.SIGINT})

		if err := y.exits(130); err == nil {
			t.Error("it does not say why")
		}
	})

	t.Run("a_program_that_is_not_there_claims_nothing", func(t *testing.T) {
		store := memstore.New()
		code, err := Supervise(t.Context(), member(store, "ada"), "jobs", &Command{Path: "no-such-command"},
			Policy{Restart: true})
		if code != ExitNotFound || err == nil || store.Counts().Writes() != 0 {
			t.Errorf("%d, %v", code, err)
		}
	})

	t.Run("a_policy_that_contradicts_itself_is_refused", func(t *testing.T) {
		for _, p := range []Policy{{NoWait: true, Restart: true}, {Timeout: -1}} {
			if _, err := Supervise(t.Context(), member(memstore.New(), "ada"), "jobs", &Command{Path: "true"},
				p); err == nil {
				t.Errorf("%+v", p)
			}
		}
	})
}
