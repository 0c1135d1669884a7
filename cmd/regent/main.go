// Command regent puts exactly one process in charge.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/regentd/regent/cmd/regent/internal/demo"
)

// exitUsage is the exit code for a command line that makes no sense.
const exitUsage = 64

const usage = `regent puts exactly one process in charge.

Usage:
  regent demo       three processes on one embedded store: kill the leader, see who takes over, and how fast
  regent version    what this is
  regent help       this page
`

// errUsage says that the command line makes no sense.
var errUsage = errors.New("see 'regent help'")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	switch {
	case err == nil:
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "regent:", err)
		os.Exit(exitUsage)
	default:
		fmt.Fprintln(os.Stderr, "regent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	command := "help"
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch command {
	case "help", "-h", "--help":
		_, err := io.WriteString(out, usage)
		return err
	case "version", "--version":
		_, err := fmt.Fprintln(out, "regent", version())
		return err
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

// version is what the Go tool has stamped into the binary.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
