// Command regent elects at most one leader among processes that share a store.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/cmd/regent/internal/container"
	"github.com/regentd/regent/cmd/regent/internal/demo"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/reaper"
)

// Exit codes, besides those of a program under 'regent run'.
const (
	exitFailure     = 1
	exitUsage       = 64
	exitUnreachable = 69 // the store was not reached within 'regent run --timeout'
	exitConfig      = 78
)

// errUsage means that the command line makes no sense.
var errUsage = errors.New("see 'regent help'")

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error // nil to print nothing
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil))) // of the reaper
	reaper.Main(openForReaper)

	err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	var exit *exitError
	if err != nil && (!errors.As(err, &exit) || exit.err != nil) {
		fmt.Fprintln(os.Stderr, "regent:", err)
	}

	os.Exit(exitCode(err))
}

// exitCode returns the exit code of this process for an error.
func exitCode(err error) int {
	var exit *exitError
	var conf *config.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &conf), errors.Is(err, driver.ErrRefused):
		return exitConfig
	case errors.Is(err, errUsage), errors.Is(err, config.ErrUsage):
		return exitUsage
	}

	return exitFailure
}

// run runs the command that args name.
func run(ctx context.Context, args []string, in *os.File, out, errs io.Writer) error {
	if len(args) == 0 {
		args = []string{"help"}
	}

	contained := args[0] == container.Command && len(args) > 1
	if contained { // this process is the child that [contain] started
		args = args[1:]
	}

	command := args[0]
	long := command == "serve" || command == "run"
	if long && !contained && container.Where() != container.Outside {
		return contain(args)
	}

	args = args[1:]

	if command == "run" { // it forwards signals
		return runProgram(ctx, args, in, out, errs)
	}

	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	switch command {
	case "help", "-h", "--help":
		return help(out, args)
	case "version", "--version":
		_, err := fmt.Fprintln(out, "regent", version())
		return err
	case "serve":
		return serve(ctx, args, out, errs)
	case "slots":
		return checkSlots(args, out)
	case "demo":
		if len(args) > 0 {
			return fmt.Errorf("demo takes no argument, got %q: %w", args[0], errUsage)
		}
		return demo.Run(ctx, out)
	case demo.NodeCommand:
		return demo.RunNode(ctx, args, in, out)
	}

	return fmt.Errorf("unknown command %q: %w", command, errUsage)
}

// contain runs a command as a child of this process, and returns when the child and its reaper have ended.
func contain(args []string) error {
	code, err := container.Run(args, reaper.Command)
	if code == 0 && err == nil {
		return nil
	}
	return &exitError{code, err}
}

// startReaper starts the reaper. It returns nil if there is none: then the lease of a dead leader has to expire.
func startReaper(ctx context.Context, s *config.Settings, log *slog.Logger) *reaper.Reaper {
	if !s.Reaper || strings.HasPrefix(s.Store, "memory:") { // a store in memory ends with this process
		return nil
	}

	r, err := reaper.Start(ctx, reaper.Options{
		Store: s.Store, StopTimeout: s.Regent.StopTimeout, Log: log, Adopter: container.Adopter(),
	})
	if err != nil {
		log.Warn("no reaper: after a crash a standby takes over when the lease expires", "error", err)
		return nil
	}

	if container.Adopter() != 0 {
		log.Warn("this is a container, which the reaper cannot outlive: if all of it is killed at once, "+
			"a standby takes over when the lease expires", "leaseDuration", s.Regent.LeaseDuration)
	}

	return r
}

// openForReaper opens the store in the reaper.
func openForReaper(ctx context.Context, address string) (driver.Store, error) {
	return opener(address, storeUse{children: true, unchecked: true}, func(string) {})(ctx)
}

// version returns the version that the Go tool has stamped into the binary.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
