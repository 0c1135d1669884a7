//go:build !linux

package reaper

import (
	"context"
	"log/slog"
	"os"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/runner/brood"
	"github.com/regentd/regent/driver"
)

// Reaper is a companion process that this system cannot have.
type Reaper struct{}

// Start says ErrUnsupported.
func Start(context.Context, Options) (*Reaper, error) { return nil, ErrUnsupported }

// Lifeline does nothing.
func (*Reaper) Lifeline(regent.Lifeline) {}

// Group does nothing.
func (*Reaper) Group(brood.Brood) {}

// Ungroup does nothing.
func (*Reaper) Ungroup(brood.Brood) {}

// PID returns 0.
func (*Reaper) PID() int { return 0 }

// Close does nothing.
func (*Reaper) Close() {}

// Main says ErrUnsupported.
func Main(context.Context, *os.File, func(context.Context, string) (driver.Store, error), *slog.Logger) error {
	return ErrUnsupported
}
