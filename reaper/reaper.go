// Package reaper starts a companion process that releases the leases of a crashed process at once, so that a standby
// takes over in milliseconds, whatever the lease duration and on any store.
//
// A program needs two lines. The first is the first line of its main:
//
//	reaper.Main(openStore) // the companion process never gets past this line
//
// The second is where it makes its member, whose OnLifeline is then companion.Lifeline:
//
//	companion, err := reaper.Start(ctx, reaper.Options{Store: address, StopTimeout: config.StopTimeout})
//
// The directory example holds such a program.
//
// # What the companion does
//
// [Start] runs the same binary again, with the argument [Command], in a session of its own. There [Main] becomes the
// companion. It holds a pidfd of the process that started it, and gets every renewed deadline over a pipe.
//
//   - The kernel shows the process gone: the companion kills what the process had started ([Reaper.Track]), waits until
//     the kernel shows that gone too, and releases every heartbeat register of the process. It does so for a standby as
//     well.
//   - A deadline and the stop timeout have passed, a term depends on that deadline, and the process has not reported
//     that its duties have stopped: it is frozen or stuck. The companion kills it, before anybody else can lead.
//   - The process holds nothing, or has reported that its duties have stopped: the companion does nothing. It never
//     kills such a process, whatever the store does.
//   - The pipe is closed: that proves nothing, and the companion does nothing.
//   - The process is gone, and the store does not answer: the companion tries until the lease has expired, and 5 s
//     more. Then there is nothing left to release, and it ends.
//
// The companion opens the store by itself, with the function given to [Main], once the process holds a term. It then
// reads the register that it would release, and sends a swap that cannot apply, so that a later release is as fast as
// any other request. After that it sends nothing while the process lives, and holds no lock. A connection or a file
// that has failed meanwhile is found by the release, which opens the store again. The companion gets the store's
// address over the pipe: a password in it is in no process list and no environment.
//
// # What it does not do
//
// The companion cannot tell a starved process from a frozen one. A process is killed although it works only if its
// message is late: its duties have stopped, and the message that says so is not in the pipe when the stop timeout is
// over. A companion that was late itself waits longer.
//
// The lease has to expire, as without a companion, if
//
//   - both processes die at once: with the host, a container or a whole cgroup. When the first process of a container
//     ends, the kernel kills all others, so Start returns [ErrUnsupported] there. Below an init that ends with the
//     program (tini) the companion dies as well. 'regent run' and 'regent serve' have a parent process for both cases;
//     this package has none. Under systemd set KillMode=process;
//   - the process dies, or freezes, before its first message about a claim is in the pipe;
//   - the companion cannot reach the store.
//
// The companion needs Linux 5.3. Elsewhere Start returns [ErrUnsupported] and a nil *Reaper. All methods of a nil
// *Reaper do nothing, so a program can go on with it, and takeover after a crash takes the lease duration.
package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
)

// Command is the argument by which [Main] recognises the companion process. A program cannot use it otherwise.
const Command = "regent-reaper-process"

var (
	// ErrUnsupported is returned by [Start] if this process cannot have a companion. It wraps errors.ErrUnsupported.
	ErrUnsupported = fmt.Errorf("no reaper for this process: %w", errors.ErrUnsupported)

	// ErrNoMain is returned by [Start] in a program that does not call [Main].
	ErrNoMain = errors.New("start reaper: call reaper.Main first thing in main: the companion process begins there")
)

// Opener opens a store by its address, in the companion process. The address is what [Options] has as Store. It is
// called again if it fails, and if the store it opened does not answer.
type Opener func(ctx context.Context, address string) (driver.Store, error)

// called is set by Main. Without Main the process that Start runs would be the whole program again, which would
// start another, and so on. It is global because a process has one main function.
var called atomic.Bool

// Main runs the companion process and exits, if this process was started as one by [Start]. In any other process it
// returns at once. Call it first thing in main, before flags are read, and in TestMain if tests use [Start].
//
// The companion logs to slog.Default: set that before if it should log in another format.
func Main(open Opener) {
	called.Store(open != nil)
	if len(os.Args) != 2 || os.Args[1] != Command {
		return
	}

	if err := run(context.Background(), os.Stdin, open, slog.Default()); err != nil {
		fmt.Fprintln(os.Stderr, "reaper:", err)
		os.Exit(1)
	}

	os.Exit(0)
}

// Options configures a [Reaper].
type Options struct {
	// Store is the address that the companion process gives to its [Opener]. It is sent over a pipe, so it may hold
	// a password.
	Store string

	// StopTimeout is the StopTimeout of the member's configuration: how long duties may take to stop. A process that
	// has not stopped its duties so long after its deadline is killed.
	StopTimeout time.Duration

	// Adopter is the process that adopts the orphans of this one and outlives it; 0 if there is none. Everything that
	// it has adopted is killed once this process is gone.
	Adopter int

	Log *slog.Logger // gets warnings about the companion process; slog.Default if nil
}

func (o Options) validate() error {
	if o.Store == "" {
		return errors.New("start reaper: Store is empty: it must be the address by which the store is opened")
	}
	if o.StopTimeout <= 0 {
		return fmt.Errorf("start reaper: StopTimeout %v: it must be that of the member's configuration, "+
			"which is positive", o.StopTimeout)
	}
	return nil
}

// Start starts the companion process, and replaces it if it dies. ctx bounds the start only: the companion lives until
// [Reaper.Close], or until this process has ended and its leases are released.
//
// It returns [ErrUnsupported] if this process cannot have a companion: see the package comment for what to do then. It
// returns [ErrNoMain] if the program does not call [Main].
func Start(ctx context.Context, opts Options) (*Reaper, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}

	if err := opts.validate(); err != nil {
		return nil, err
	}

	if !called.Load() {
		return nil, ErrNoMain
	}

	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	return start(opts)
}
