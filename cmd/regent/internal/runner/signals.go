package runner

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// SignalError is a signal that has ended a context.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string { return e.Signal.String() }

// interrupted is the exit code of a process that was told to end before its program had begun.
func interrupted(ctx context.Context) int {
	var s *SignalError
	if errors.As(context.Cause(ctx), &s) {
		return exitSignal + int(s.Signal)
	}
	return 1
}

// Forward passes the signals that this process gets on to the program while it runs. While it does not, those that mean an end (INT, TERM,
// HUP, QUIT) end the returned context with a [SignalError], and the others are dropped. Signals that this process was told to ignore, by nohup
// say, stay ignored. Call stop when done.
//
// Ctrl-Z (TSTP) does not stop this process while the program runs, nor the program: whoever is stopped holds the lease and does nothing
// with it, until it expires and the reaper kills both. OnSuspend tells. Without a program it stops this process, as usual.
func Forward(ctx context.Context, c *Command) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	got := make(chan os.Signal, 16)
	for _, sig := range slices.Concat(endings(), others(), suspensions()) {
		if !signal.Ignored(sig) {
			signal.Notify(got, sig)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sig := range got {
			c.pass(sig, cancel)
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		close(got)
		<-done
		cancel(nil)
	}
}

// endings are the signals that mean an end.
func endings() []os.Signal {
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
}

func (c *Command) pass(sig os.Signal, cancel context.CancelCauseFunc) {
	if slices.Contains(suspensions(), sig) {
		c.suspend()
		return
	}
	if err := c.Signal(sig); !errors.Is(err, ErrNotRunning) {
		return
	}
	if s, ok := sig.(syscall.Signal); ok && slices.Contains(endings(), sig) {
		cancel(&SignalError{s})
	}
}

func (c *Command) refuseSuspension() {
	if c.OnSuspend != nil {
		c.OnSuspend()
	}
}
