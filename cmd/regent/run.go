package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/cli"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/cmd/regent/internal/container"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/cmd/regent/internal/runner"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/reaper/proctree"
)

// runCmd is 'regent run ELECTION [flags] -- CMD ...': it runs a program while this process leads.
func runCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run ELECTION [flags] -- CMD ...",
		Short: "run a program while this process leads",
		Long:  runLong,
		Example: `  regent run nightly --store redis://db:6379 -- ./nightly.sh
  regent run nightly --no-wait -- ./nightly.sh
  regent run proxy --restart -- haproxy -f /etc/haproxy.cfg`,
		GroupID: cli.GroupRun,
	}

	var policy runner.Policy
	flags := cmd.Flags()
	flags.BoolVar(&policy.Restart, "restart", false,
		"run the program again when it fails, and when this process leads again")
	flags.BoolVar(&policy.NoWait, "no-wait", false,
		"end with exit code 75 at once if another process leads, or if the election is paused")
	flags.Var(&waitFlag{&policy.Timeout}, "timeout",
		"how long to wait for leadership, as a `duration` such as 30s; 0s waits for ever")
	source := config.Flags(flags)

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := policy.Validate(); err != nil {
			return cli.UsageError(cmd, "run: %v", err)
		}
		election, program, err := splitProgram(cmd, args)
		if err != nil {
			return err
		}
		if err := flags.Set("election", election); err != nil {
			return err
		}

		settings, err := source.Load(os.Environ(), config.ReadFile)
		if err != nil {
			return err
		}

		if policy.NoWait && policy.Timeout == 0 { // a store that does not answer is not waited for
			policy.Timeout = settings.Regent.LeaseDuration + settings.Regent.StartupJitterMax
		}

		storeUnshared(settings)
		return supervise(cmd.Context(), settings, policy, program, io.in, io.errs)
	}

	return cmd
}

// splitProgram returns the election and the program that the arguments of 'regent run' name.
func splitProgram(cmd *cobra.Command, args []string) (election string, program []string, err error) {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0 || dash >= len(args):
		return "", nil, cli.UsageError(cmd, "run needs a program: regent run ELECTION -- CMD")
	case dash == 0 || args[0] == "":
		return "", nil, cli.UsageError(cmd, "run needs an election: regent run ELECTION -- CMD")
	case dash > 1:
		return "", nil, cli.UsageError(cmd, "run: %q is no flag, and the program must follow --", args[1])
	}

	return args[0], args[dash:], nil
}

// supervise campaigns, and runs the program while this process leads.
func supervise(ctx context.Context, s *config.Settings, policy runner.Policy, program []string, in *os.File,
	errs io.Writer) error {
	log := logger(s, s.LogLevel, errs)
	if err := checkStart(s, log); err != nil {
		return err
	}

	log.Info("campaigning", "election", s.Election, "store", location(s.Store), "profile", s.Profile)
	if err := proctree.Confinable(); err != nil && container.Adopter() == 0 {
		log.Info("program has no cgroup of its own: a process that leaves its session with a clean environment is "+
			"not found", "reason", err)
	}

	companion := startReaper(context.WithoutCancel(ctx), s, s.Store, log)
	defer companion.Close()

	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)

	store, closeStore := openStore(ctx, s, log, refuse)
	defer closeStore()

	// The member has no address: nothing listens here. A leader would take a published address that nobody serves for a
	// member that is cut off.
	m := &regent.Member{
		Store: store, ID: s.Node, Facts: node.Process(), Config: s.Regent, OnLifeline: companion.Lifeline,
		OnEvent: beginStore(store, regent.LogEvents(log)),
	}
	defer checkHealth(ctx, m, s)()

	c := &runner.Command{
		Path: program[0], Args: program[1:], Env: config.ForChildren(os.Environ()), Node: s.Node,
		Stdin: in, Stdout: os.Stdout, Stderr: os.Stderr, Adopter: container.Adopter(),
		StopTimeout: s.Regent.StopTimeout, OnStart: companion.Track, OnEnd: companion.Untrack,
		OnKill: warnOfKill(log, s.Regent.StopTimeout, "election", s.Election),
		OnSuspend: func() {
			log.Warn("not stopped by Ctrl-Z: the program leads; end it with Ctrl-C", "election", s.Election)
		},
	}
	policy.OnTimeout = func() {
		if at, _ := store.Answered(); at.IsZero() { // no request of a campaign was ever sent, so none is waited for
			_ = store.Close()
		}
	}
	ctx, stop := runner.Forward(ctx, c)
	defer stop()

	code, err := runner.Supervise(ctx, m, s.Election, c, policy)
	if code == 0 && err == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, driver.ErrRefused) {
		return cause
	}
	if at, cause := store.Answered(); at.IsZero() && errors.Is(err, runner.ErrNotAcquired) {
		code := exitUnreachable
		if errors.Is(cause, driver.ErrCredentials) {
			code = exitConfig
		}
		return &exitError{Code: code, Err: unreachable(s, policy.Timeout, cause)}
	}

	return &exitError{Code: code, Err: err}
}

// openStore starts to open the store, and retries in the background. If the store refuses this configuration, it calls
// refuse. The caller calls the returned function to close the store.
func openStore(ctx context.Context, s *config.Settings, log *slog.Logger,
	refuse context.CancelCauseFunc) (*node.Store, func()) {
	// The program may outlive this process, so the death of this process alone proves nothing.
	open := opener(s.Store, storeUse{children: true, jitter: s.Regent.StartupJitterMax}, storeWarning(log))
	store := node.NewStore(forElection(s.Election, storeWarning(log), open))
	store.Log = log
	store.Address = location(s.Store)

	if s.Regent.StartupJitterMax == 0 {
		store.Begin()
	}

	life, end := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		err := store.Run(life, func(err error) {
			log.Error(node.NotOpen(err), "store", location(s.Store), "error", err)
		})
		if err != nil {
			refuse(err)
		}
	}()

	return store, func() {
		_ = store.Close()
		end()
	}
}

// warnOfKill returns a function that logs that a program is killed.
func warnOfKill(log *slog.Logger, stopTimeout time.Duration, args ...any) func(string, time.Duration) {
	return func(reason string, after time.Duration) {
		log.Warn("program did not stop in time, and is killed: let it end at TERM, or raise stopTimeout",
			append(args, "reason", reason, "after", after, "stopTimeout", stopTimeout)...)
	}
}

// beginStore returns an observer of events that opens the store when the start-up jitter has passed.
func beginStore(store *node.Store, next func(regent.Event)) func(regent.Event) {
	return func(e regent.Event) {
		if e.Kind == regent.EventMemberStarted {
			store.Begin()
		}
		next(e)
	}
}

// unreachable returns the error for a store that was never reached: whether somebody leads is not known.
func unreachable(s *config.Settings, waited time.Duration, cause error) error {
	if cause == nil {
		cause = errors.New("it does not answer")
	}
	what := "reached"
	if errors.Is(cause, driver.ErrCredentials) {
		what = "opened"
	}
	return fmt.Errorf("store %s was not %s within %v: %w", config.Redact(s.Store), what, waited, cause)
}

// waitFlag is the value of --timeout.
type waitFlag struct{ to *time.Duration }

func (f *waitFlag) String() string { return f.to.String() }

// Type returns the type of the value, as help shows it.
func (f *waitFlag) Type() string { return "duration" }

func (f *waitFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New("must be a duration such as 500ms, 30s or 5m, and not negative; 0 waits for ever")
	}

	*f.to = d
	return nil
}
