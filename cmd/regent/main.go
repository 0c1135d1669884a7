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

	"github.com/regentd/regent/cmd/regent/internal/cli"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/cmd/regent/internal/container"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/reaper"
)

// Exit codes, besides those of a program under 'regent run'.
const (
	exitFailure     = cli.ExitFailure
	exitUsage       = cli.ExitUsage
	exitUnreachable = cli.ExitUnreachable // the store was not reached within 'regent run --timeout'
	exitConfig      = cli.ExitConfig
)

// reaperLog is the variable by which the reaper, which reads no configuration, learns in which format to log. It is no
// key of the configuration, and has another prefix.
const reaperLog = "LOG_FORMAT_OF_REGENT_REAPER"

// exitError is an error with an exit code of its own.
type exitError = cli.ExitError

func main() {
	slog.SetDefault(newLogger(os.Getenv(reaperLog), slog.LevelInfo, os.Stderr))
	reaper.Main(openForReaper)

	err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	var exit *exitError
	if err != nil && (!errors.As(err, &exit) || exit.Err != nil) {
		fmt.Fprintln(os.Stderr, "regent:", strings.Replace(err.Error(), "?: see '", "? See '", 1)) // after a question
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
		return exit.Code
	case errors.As(err, &conf), errors.Is(err, driver.ErrRefused):
		return exitConfig
	case errors.Is(err, cli.ErrUsage), errors.Is(err, config.ErrUsage):
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

	if command != "run" { // which forwards signals
		var stop func()
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
	}

	stream := output.NewStream(out)
	err := execute(ctx, newRoot(streams{in, stream, errs}), args)
	if err == nil && command != "run" && command != "is-leader" { // whose exit codes have meanings of their own
		err = stream.Err()
	}
	return err
}

// contain runs a command as a child of this process, and returns when the child and its reaper have ended.
func contain(args []string) error {
	code, err := container.Run(args, reaper.Command)
	if code == 0 && err == nil {
		return nil
	}
	return &exitError{Code: code, Err: err}
}

// startReaper starts the reaper. It returns nil if there is none: then the lease of a dead leader has to expire.
// The reaper uses the store at an address, which is empty if the store ends with this process.
func startReaper(ctx context.Context, s *config.Settings, store string, log *slog.Logger) *reaper.Reaper {
	if !s.Reaper || store == "" || strings.HasPrefix(store, "memory:") {
		return nil
	}

	if err := os.Setenv(reaperLog, s.LogFormat); err != nil {
		log.Warn("reaper logs as text", "error", err)
	}
	r, err := reaper.Start(ctx, reaper.Options{
		Store: store, StopTimeout: s.Regent.StopTimeout, Log: log, Adopter: container.Adopter(),
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
