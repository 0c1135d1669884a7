package embedded

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"

	"go.uber.org/zap/zapcore"
)

// expected are warnings about what is chosen here: one port for clients, and no log-in with a password.
var expected = []string{
	"Running http and grpc server on single port. This is not recommended for production.",
	"simple token is not cryptographically signed",
}

// core is a zapcore.Core that writes to a slog.Logger what etcd warns of, and what is worse.
type core struct {
	log     *slog.Logger
	dir     string       // of the member
	closing *atomic.Bool // a member that stops on purpose complains of its closed listeners
	fields  []zapcore.Field
}

// Enabled implements [zapcore.Core].
func (c *core) Enabled(level zapcore.Level) bool { return level >= zapcore.WarnLevel }

// With implements [zapcore.Core].
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	with := *c
	with.fields = append(slices.Clone(c.fields), fields...)
	return &with
}

// Check implements [zapcore.Core].
func (c *core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	quiet := c.closing.Load() || slices.Contains(expected, e.Message)
	if !c.Enabled(e.Level) || quiet && e.Level < zapcore.DPanicLevel {
		return checked
	}
	return checked.AddCore(e, c)
}

// Write implements [zapcore.Core].
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range append(slices.Clone(c.fields), fields...) {
		f.AddTo(values)
	}

	var attrs []slog.Attr
	for _, key := range slices.Sorted(maps.Keys(values.Fields)) {
		attrs = append(attrs, slog.Any(key, values.Fields[key]))
	}

	level := slog.LevelWarn
	if e.Level > zapcore.WarnLevel {
		level = slog.LevelError
	}
	c.log.LogAttrs(context.Background(), level, "etcd: "+e.Message, attrs...)
	if e.Level == zapcore.FatalLevel || e.Level == zapcore.PanicLevel {
		c.log.Error("the etcd member in this process cannot go on, so the process ends; another node takes over. The "+
			"line before says why. If its disk is full, free some space and start this node again", "dir", c.dir)
	}
	return nil
}

// Sync implements [zapcore.Core].
func (c *core) Sync() error { return nil }
