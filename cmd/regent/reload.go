package main

import (
	"context"
	"log/slog"
	"os"
	"reflect"
	"strings"

	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/internal/signed"
)

// reloader applies what may change while a node runs: the token, the log level, and certificates.
type reloader struct {
	load   func() (*config.Settings, error)
	began  *config.Settings // at the start of the node
	token  *signed.Secret
	level  *slog.LevelVar
	certs  *certificates
	log    *slog.Logger
	signal <-chan os.Signal
	inUse  *config.HealthCheck

	publish     func(token string) error        // publishes the digest of a new token to other members
	healthCheck func(settings *config.Settings) // replaces the health check
}

// run reloads at each signal, until ctx ends.
func (r *reloader) run(ctx context.Context) {
	for {
		select {
		case <-r.signal:
			r.reload()
		case <-ctx.Done():
			return
		}
	}
}

// reload reads the configuration again. A configuration that is refused changes nothing.
func (r *reloader) reload() {
	r.certs.reload()
	now, err := r.load()
	if err != nil {
		r.log.Warn("configuration cannot be reloaded: the former one stays in use", "error", err)
		return
	}

	if now.Token == "" && r.token.Token() != "" {
		r.log.Warn("configuration cannot be reloaded: it has no token any more, and a reload never switches "+
			"authentication off: the former one stays in use; set the key again, or restart the node to run it without",
			"key", r.began.TokenKey())
		return
	}

	for _, w := range now.Warnings {
		r.log.Warn(w)
	}

	if !now.Given("advertise") && now.Listen == r.began.Listen {
		now.Advertise = r.began.Advertise // it was chosen at the start
	}
	if keys := r.began.Changed(now); len(keys) > 0 {
		r.log.Warn("configuration has changed in keys that take effect at a restart", "keys", strings.Join(keys, ","))
	}

	if r.healthCheck != nil && !reflect.DeepEqual(now.HealthCheck, r.inUse) {
		r.healthCheck(now)
		r.inUse = now.HealthCheck
	}

	newToken := now.Token != r.token.Token()
	r.token.Set(now.Token)

	if newToken && r.publish != nil {
		if err := r.publish(now.Token); err != nil {
			r.log.Warn("other members cannot be informed of the new token", "error", err)
		}
	}

	r.level.Set(now.LogLevel)
	r.log.Info("configuration reloaded", "logLevel", now.LogLevel, "newToken", newToken)
}
