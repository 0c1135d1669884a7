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

// programs returns a duty for each program in the configuration. It runs while the node leads, as under 'regent run'.
func programs(s *config.Settings, companion *reaper.Reaper, log *slog.Logger) []regent.Duty {
	all := make([]regent.Duty, 0, len(s.Duties)+1)
	before := node.Duties
	// Duties stop in turn, the last one first, each a share of the stop timeout after the one before. The duties that
	// every leader has stop after these. The label of the pod is the first one: it goes when all programs have ended.
	share := func(at int) time.Duration {
		return s.Regent.StopTimeout * time.Duration(at) / time.Duration(before+len(s.Duties))
	}
	if s.PodLabel != "" {
		before++
		all = append(all, podLabel(s, share(before)))
	}

	for i, d := range s.Duties {
		left := share(before + i + 1)

		p := &program{duty: d, log: log, command: func() *runner.Command {
			return &runner.Command{
				Path: d.Command[0], Args: d.Command[1:], Dir: d.Dir, Env: environ(d.Env), Node: s.Node,
				Stdout: os.Stdout, Stderr: os.Stderr, StopTimeout: left,
				OnStart: companion.Track, OnEnd: companion.Untrack,
				OnKill: warnOfKill(log, s.Regent.StopTimeout, "duty", d.Name),
			}
		}}
		all = append(all, regent.Duty{Election: s.Election, Name: d.Name, Run: p.run})
	}

	return all
}

// program is a duty that is a program.
type program struct {
	duty    config.Duty
	command func() *runner.Command // a new one for each term
	log     *slog.Logger
}

// run runs the program in a term, as often as its restart key says. An error makes the member run the duty again.
func (p *program) run(ctx context.Context, t regent.Term) error {
	c := p.command()
	for {
		err := p.once(ctx, t, c)
		if err != nil || p.duty.Restart != "always" || ctx.Err() != nil {
			return err
		}

		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil
		}
	}
}

// once runs the program once.
func (p *program) once(ctx context.Context, t regent.Term, c *runner.Command) error {
	d := p.duty
	r, err := c.Run(ctx, t)
	switch {
	case err != nil && d.Restart == "never":
		p.log.Error("duty cannot be run", "duty", d.Name, "epoch", t.Epoch, "error", err)
		return nil
	case err != nil:
		return err
	case r.Lost:
		return nil
	case r.Code != 0 && d.Restart != "never":
		return fmt.Errorf("%s: exit code %d", d.Command[0], r.Code)
	}

	p.log.Info("duty has ended", "duty", d.Name, "epoch", t.Epoch, "code", r.Code)
	return nil
}

// environ returns the environment of this process with further variables, and without its secrets.
func environ(more map[string]string) []string {
	env := config.ForChildren(os.Environ())
	for name, value := range more {
		env = append(env, name+"="+value)
	}
	return env
}
