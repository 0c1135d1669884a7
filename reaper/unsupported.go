//go:build !linux

package reaper

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/regentd/regent"
	"github.com/regentd/regent/reaper/proctree"
)

// Reaper is the companion process, which this system cannot have.
type Reaper struct{}

func start(Options) (*Reaper, error) {
	return nil, fmt.Errorf("%w: it needs Linux 5.3", ErrUnsupported)
}

// Lifeline does nothing.
func (*Reaper) Lifeline(regent.Lifeline) {}

// Track does nothing.
func (*Reaper) Track(proctree.Tree) {}

// Untrack does nothing.
func (*Reaper) Untrack(proctree.Tree) {}

// PID returns 0.
func (*Reaper) PID() int { return 0 }

// Close does nothing.
func (*Reaper) Close() {}

func run(context.Context, *os.File, Opener, *slog.Logger) error {
	return fmt.Errorf("%w: it needs Linux 5.3", ErrUnsupported)
}
