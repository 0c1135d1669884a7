package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/cmd/regent/internal/container"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/cmd/regent/internal/runner"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/reaper/proctree"
)

// runProgram is 'regent run ELECTION [flags] -- CMD ...': it runs a program while this process leads.
func runProgram(ctx context.Context, args []string, in *os.File, out, errs io.Writer) error {
	if asksForHelp(args) {
		return helpWithKeys(out, runHelp)
	}

	split := slices.Index(args, "--")
	if split < 0 || split+1 >= len(args) {
		return fmt.Errorf("run needs a program: regent run ELECTION -- CMD: %w", errUsage)
	}

	flags := args[:split]
	program := args[split+1:]
	named := len(flags) > 0 && flags[0] != "" && flags[0][0] != '-'
	if named {
		flags = append([]string{"--election=" + flags[0]}, flags[1:]...)
	}

	set := flag.NewFlagSet("regent run", flag.ContinueOnError)
	var policy runner.Policy
	set.BoolVar(&policy.Once, "once", false, "run the program at most once; this is the default")
	set.BoolVar(&policy.Restart, "restart", false,
		"run the program again when it fails, and when this process leads again")
	set.Func("timeout", "how long to wait for leadership; 0 for ever", waitFlag(&policy.Timeout))
	source := config.Flags(set)

	if err := config.Parse(set, flags); err != nil {
		return fmt.Errorf("run: %w", err)
	}

	settings, err := source.Load(os.Environ(), config.ReadFile)
	switch {
	case err != nil:
		return err
	case !named:
		return fmt.Errorf("run needs an election: regent run ELECTION -- CMD: %w", errUsage)
	case len(settings.Args) > 0:
		return fmt.Errorf("run: %q is no flag, and the program must follow --: %w", settings.Args[0], errUsage)
	}

	if err := policy.Validate(); err != nil {
		return fmt.Errorf("run: %w: %w", err, errUsage)
	}

	storeUnshared(settings)
	return supervise(ctx, settings, policy, program, in, errs)
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

	companion := startReaper(context.WithoutCancel(ctx), s, log)
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
	c := &runner.Command{
		Path: program[0], Args: program[1:], Env: config.ForChildren(os.Environ()), Node: s.Node,
		Stdin: in, Stdout: os.Stdout, Stderr: os.Stderr, Adopter: container.Adopter(),
		StopTimeout: s.Regent.StopTimeout, OnStart: companion.Track, OnEnd: companion.Untrack,
		OnKill: warnOfKill(log, s.Regent.StopTimeout, "election", s.Election),
		OnSuspend: func() {
			log.Warn("not stopped by Ctrl-Z: the program leads; end it with Ctrl-C", "election", s.Election)
		},
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
		return &exitError{exitUnreachable, unreachable(s, policy.Timeout, cause)}
	}

	return &exitError{code, err}
}

// openStore starts to open the store, and retries in the background. If the store refuses this configuration, it calls
// refuse. The caller calls the returned function to close the store.
func openStore(ctx context.Context, s *config.Settings, log *slog.Logger,
	refuse context.CancelCauseFunc) (*node.Store, func()) {
	// The program may outlive this process, so the death of this process alone proves nothing.
	open := opener(s.Store, storeUse{children: true, jitter: s.Regent.StartupJitterMax}, storeWarning(log))
	store := node.NewStore(forElection(s.Election, storeWarning(log), open))
	store.Log = log

	if s.Regent.StartupJitterMax == 0 {
		store.Begin()
	}

	life, end := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		err := store.Run(life, func(err error) {
			log.Error("store unreachable", "store", location(s.Store), "error", err)
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
	return fmt.Errorf("store %s was not reached within %v: %w", config.Redact(s.Store), waited, cause)
}

// waitFlag returns a function that parses --timeout.
func waitFlag(to *time.Duration) func(string) error {
	return func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return fmt.Errorf("must be a duration such as 500ms, 30s or 5m, and not negative; 0 waits for ever")
		}

		*to = d
		return nil
	}
}
