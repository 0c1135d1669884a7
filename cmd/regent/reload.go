package main

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/internal/signed"
)

// reloader takes in what may change while a node runs: the token, the log level, and certificates.
type reloader struct {
	load   func() (*config.Settings, error)
	began  *config.Settings // what the node was started with
	token  *signed.Secret
	level  *slog.LevelVar
	peers  *peers
	log    *slog.Logger
	signal <-chan os.Signal

	publish func(token string) error // tells other members of a new token
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

// reload reads the configuration again. One that is wrong changes nothing.
func (r *reloader) reload() {
	r.peers.reload()
	now, err := r.load()
	if err != nil {
		r.log.Warn("configuration cannot be reloaded: the former one stays in use", "error", err)
		return
	}
	if now.Token == "" && r.token.Token() != "" {
		r.log.Warn("configuration cannot be reloaded: it has no token any more, and a reload never switches authentication "+
			"off: the former one stays in use; set the key again, or restart the node to run it without", "key", r.began.TokenKey())
		return
	}
	for _, w := range now.Warnings {
		r.log.Warn(w)
	}
	if !now.Given("advertise") && now.Listen == r.began.Listen {
		now.Advertise = r.began.Advertise // which was chosen when the node was started
	}
	if keys := r.began.Changed(now); len(keys) > 0 {
		r.log.Warn("configuration has changed in keys that take effect at a restart", "keys", strings.Join(keys, ","))
	}
	newToken := now.Token != r.token.Token()
	r.token.Set(now.Token)
	if newToken && r.publish != nil {
		if err := r.publish(now.Token); err != nil {
			r.log.Warn("other members cannot be told that the token is another one", "error", err)
		}
	}
	r.level.Set(now.LogLevel)
	r.log.Info("configuration reloaded", "logLevel", now.LogLevel, "newToken", newToken)
}
