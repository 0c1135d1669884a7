package node

import (
	"context"
	"log/slog"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
)

// logEvents returns a function that logs events like [regent.LogEvents], but events of a node at levels of their own.
func logEvents(l *slog.Logger) func(regent.Event) {
	standard := regent.LogEvents(l)
	debug := regent.LogEvents(slog.New(levelHandler{l.Handler(), slog.LevelDebug}))
	warn := regent.LogEvents(slog.New(levelHandler{l.Handler(), slog.LevelWarn}))

	return func(e regent.Event) {
		switch {
		case e.Kind == health.EventHealthCheck: // twice a minute is too often for a log
			debug(e)
		case isWarning(e):
			warn(e)
		default:
			standard(e)
		}
	}
}

// isWarning reports whether an event of a node is a warning.
func isWarning(e regent.Event) bool {
	switch e.Kind {
	case health.EventNodeDown, health.EventPartition, orchestrate.EventMissed, orchestrate.EventClock:
		return true
	case EventConfigDiffers:
		return e.Metadata["key"] != factVersion
	case orchestrate.EventChanged:
		return e.Metadata["to"] == string(orchestrate.Down)
	}

	return false
}

// levelHandler logs everything at one level.
type levelHandler struct {
	slog.Handler
	level slog.Level
}

// Enabled implements [slog.Handler].
func (h levelHandler) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, h.level)
}

// Handle implements [slog.Handler].
func (h levelHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = h.level
	return h.Handler.Handle(ctx, r)
}
