package runner

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// SignalError is the cause of a context that a signal has ended.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string { return e.Signal.String() }

// interrupted returns the exit code of a process that got a signal to end before its program had begun.
func interrupted(ctx context.Context) int {
	var s *SignalError
	if errors.As(context.Cause(ctx), &s) {
		return exitSignal + int(s.Signal)
	}
	return 1
}

// Forward forwards the signals that this process gets to the program while it runs. While no program runs, signals to
// end (INT, TERM, HUP, QUIT) end the returned context with a [SignalError], and the others are dropped. Signals that
// this process ignores, under nohup for example, stay ignored. The caller calls stop when it is done.
//
// Ctrl-Z (TSTP) suspends neither the program nor this process while the program runs: suspended, they would hold the
// lease and do nothing, until it expires and the reaper kills both. OnSuspend is called instead. While no program runs,
// Ctrl-Z suspends this process.
func Forward(ctx context.Context, c *Command) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	got := make(chan os.Signal, 16)
	for _, sig := range slices.Concat(endings(), forwarded(), suspensions()) {
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

// endings returns the signals to end.
func endings() []os.Signal {
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
}

// pass handles one signal as [Forward] describes it.
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
