package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/cmd/regent/internal/runner"
	"github.com/regentd/regent/reaper"
)

// programs makes duties of the programs in the configuration: each runs while the node leads, by the engine of 'regent run'.
func programs(s *config.Settings, companion *reaper.Reaper, log *slog.Logger) []regent.Duty {
	all := make([]regent.Duty, len(s.Duties))
	before, n := node.Duties, time.Duration(len(s.Duties)+node.Duties) // those that every leader has come first
	for i, d := range s.Duties {
		// The last one is told to stop first, and the others each a share of the stop timeout later: what is left then is theirs.
		left := s.Regent.StopTimeout * time.Duration(before+i+1) / n
		all[i] = regent.Duty{Election: s.Election, Name: d.Name, Run: func(ctx context.Context, t regent.Term) error {
			c := &runner.Command{Path: d.Command[0], Args: d.Command[1:], Dir: d.Dir, Env: environ(d.Env), Node: s.Node,
				Stdout: os.Stdout, Stderr: os.Stderr, StopTimeout: left, OnStart: companion.Track, OnEnd: companion.Untrack,
				OnKill: warnOfKill(log, s.Regent.StopTimeout, "duty", d.Name)}
			for {
				err := runDuty(ctx, t, c, d, log)
				if err != nil || d.Restart != "always" || ctx.Err() != nil {
					return err
				}
				select { // it has ended well, and is to run again
				case <-time.After(time.Second):
				case <-ctx.Done():
					return nil
				}
			}
		}}
	}
	return all
}

// runDuty runs a duty's program once. An error makes the supervisor run it again.
func runDuty(ctx context.Context, t regent.Term, c *runner.Command, d config.Duty, log *slog.Logger) error {
	r, err := c.Run(ctx, t)
	switch {
	case err != nil && d.Restart == "never":
		log.Error("duty cannot be run", "duty", d.Name, "epoch", t.Epoch, "error", err)
		return nil
	case err != nil:
		return err
	case r.Lost:
		return nil
	case r.Code != 0 && d.Restart != "never":
		return fmt.Errorf("%s: exit code %d", d.Command[0], r.Code)
	}
	log.Info("duty has ended", "duty", d.Name, "epoch", t.Epoch, "code", r.Code)
	return nil
}

// environ is this process's environment with further variables, and without its secrets, which are none of a duty's business.
func environ(more map[string]string) []string {
	env := config.ForChildren(os.Environ())
	for name, value := range more {
		env = append(env, name+"="+value)
	}
	return env
}
