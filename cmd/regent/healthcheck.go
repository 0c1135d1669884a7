package main

import (
	"context"
	"encoding/json"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/cmd/regent/internal/node"
)

// healthCheck returns the health check of the configuration, or nil if it has none.
func healthCheck(s *config.Settings) *node.HealthCheck {
	c := s.HealthCheck
	if c == nil {
		return nil
	}

	made := &node.HealthCheck{
		Kind: "http", Target: c.URL, Interval: c.Interval, Timeout: c.Timeout, Failures: c.Failures,
	}
	if len(c.Command) > 0 {
		args, _ := json.Marshal(c.Command[1:]) // strings cannot fail
		made.Kind = "exec"
		made.Target = c.Command[0]
		made.Options = map[string]string{"args": string(args)}
	}

	return made
}

// checkHealth starts the health check of the configuration, if there is one, for a member that does not run yet. The
// returned function ends it.
func checkHealth(ctx context.Context, m *regent.Member, s *config.Settings) (stop func()) {
	c := healthCheck(s)
	if c == nil {
		return func() {}
	}

	checker := node.NewHealthChecker(c)
	m.Health = checker.Unhealthy
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		checker.Run(ctx)
	}()

	return func() {
		cancel()
		<-done
	}
}
