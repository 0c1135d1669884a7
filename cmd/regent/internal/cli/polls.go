package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
)

// maxDetails is how many polls are asked for their last runs, one by one.
const maxDetails = 100

func pollsCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "polls [NAME ...] [flags]",
		Short: "polls with their state, last run and next run",
		Long: `Lists the polls of the leader: state, last run, how many of the recent runs passed, and when the
next one is due. With names it prints those polls with their last runs.

Exit codes: 0 it was printed; 1 there is no such poll, or nobody leads; 69 no node answers.`,
		Example: `  regent polls
  regent polls home
  regent polls run home`,
		GroupID: GroupSee,
	}
	t := newTarget(env, cmd, pollNames, 0)
	cmd.RunE = t.run(func(ctx context.Context, s *session, args []string) error {
		ctx, done := s.bounded(ctx)
		defer done()

		all, err := s.polls(ctx, args)
		switch {
		case err != nil:
			return err
		case s.format != output.Table:
			return s.Data(map[string]any{"polls": all})
		case len(args) == 0:
			s.printPolls(all)
			return nil
		}

		for i, p := range all {
			if i > 0 {
				s.Printf("\n")
			}
			s.printPoll(p)
		}
		return nil
	})
	cmd.AddCommand(pollsRunCmd(env))

	return cmd
}

// polls returns the named polls, or all, with their last runs.
func (s *session) polls(ctx context.Context, names []string) ([]cluster.Poll, error) {
	all, err := s.cluster.Polls(ctx)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 && len(all) > maxDetails {
		return all, nil
	}

	known := namesOfPolls(all)
	if len(names) == 0 {
		names = known
	}

	found := []cluster.Poll{}
	for _, name := range names {
		p, err := s.cluster.Poll(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("%w%s", err, instead(name, known))
		}
		found = append(found, p)
	}

	return found, nil
}

func namesOfPolls(all []cluster.Poll) (names []string) {
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}

func (s *session) printPolls(all []cluster.Poll) {
	if len(all) == 0 {
		s.Printf("there are no polls: define some in the configuration file, or with PUT /v1/polls/NAME\n")
		return
	}

	now := time.Now()
	table := &output.Rows{Header: []string{"POLL", "KIND", "STATE", "SINCE", "LAST RUN", "RECENT", "NEXT", "PROBLEM"}}
	for _, p := range all {
		table.Add(output.C(p.Name), output.C(p.Kind), pollState(string(p.State)), output.C(output.Time(p.StateSince)),
			lastRun(p, now), output.C(recent(p)), output.C(nextRun(p, now)), output.C(p.Problem))
	}

	s.Table(table)
}

// pollState returns the cell of a poll's state, or of an outcome.
func pollState(state string) output.Cell {
	switch state {
	case "up", "ok":
		return output.Toned(state, output.Good)
	case "down", "failed":
		return output.Toned(state, output.Bad)
	}
	return output.Toned(state, output.Warning)
}

// lastRun returns the cell of a poll's newest run.
func lastRun(p cluster.Poll, now time.Time) output.Cell {
	if len(p.Results) == 0 {
		return output.C("")
	}
	r := p.Results[0]
	text := fmt.Sprintf("%s, %s ago", r.Outcome, output.Duration(max(0, now.Sub(r.Due))))
	return output.Toned(text, pollState(r.Outcome).Tone)
}

// recent returns how many of the last runs passed.
func recent(p cluster.Poll) string {
	if len(p.Results) == 0 {
		return ""
	}

	passed := 0
	for _, r := range p.Results {
		if r.Outcome == "ok" {
			passed++
		}
	}
	return fmt.Sprintf("%d of %d ok", passed, len(p.Results))
}

// nextRun returns when a poll is due next.
func nextRun(p cluster.Poll, now time.Time) string {
	switch {
	case !p.Enabled:
		return "not enabled"
	case p.Running > 0:
		return "running"
	case p.Next.IsZero():
		return ""
	}
	return "in " + output.Duration(max(0, p.Next.Sub(now)))
}

// printPoll prints one poll with its last runs.
func (s *session) printPoll(p cluster.Poll) {
	now := time.Now()
	s.Printf("%s: %s, %s %s, from the %s, next run %s\n", s.Paint("Poll "+p.Name, output.Strong),
		s.Paint(string(p.State), pollState(string(p.State)).Tone), output.Printable(p.Kind), output.Printable(p.Target),
		output.Printable(p.Source), nextRun(p, now))
	if p.Problem != "" {
		s.Printf("%s\n", s.Paint("! "+p.Problem, output.Bad))
	}
	if len(p.Results) == 0 {
		s.Printf("it has not run yet\n")
		return
	}

	table := &output.Rows{Header: []string{"DUE", "OUTCOME", "LATENCY", "WORKER", "EPOCH", "ATTEMPTS", "MESSAGE"}}
	for _, r := range p.Results {
		table.Add(runCells(r)...)
	}
	s.Table(table)
}

func runCells(r cluster.Run) []output.Cell {
	return []output.Cell{
		output.C(output.Time(r.Due)), pollState(r.Outcome), output.C(output.Duration(latency(r))), output.C(r.Worker),
		output.C(fmt.Sprint(r.Epoch)), output.C(fmt.Sprint(r.Attempts)), output.C(strings.TrimSpace(r.Message)),
	}
}

// latency returns how long a check took.
func latency(r cluster.Run) time.Duration {
	return time.Duration(r.LatencyMs * float64(time.Millisecond))
}

func pollsRunCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run NAME [flags]",
		Short: "run a poll now, beside its schedule",
		Long: `Has a worker run a poll now, and prints the result. The request names the current epoch: if another
leader takes over meanwhile, nothing is run.

Exit codes: 0 it passed; 1 it failed, could not be made, or was refused; 69 no node answers.`,
		Example: `  regent polls run home
  regent polls run home -o json`,
	}
	t := newTarget(env, cmd, pollNames, 1)
	cmd.RunE = t.run(func(ctx context.Context, s *session, args []string) error {
		if len(args) != 1 {
			return UsageError(cmd, "run needs the name of one poll")
		}

		ctx, done := s.bounded(ctx)
		defer done()

		status, err := s.cluster.Status(ctx)
		if err != nil {
			return err
		}
		run, err := s.cluster.RunPoll(ctx, args[0], status.Epoch)
		if errors.Is(err, cluster.ErrNotFound) {
			all, _ := s.cluster.Polls(ctx) // without them nothing is suggested
			return fmt.Errorf("%w%s", err, instead(args[0], namesOfPolls(all)))
		}
		if err != nil {
			return err
		}

		return s.printRun(run)
	})

	return cmd
}

// printRun prints a run. A run that has not passed ends the command with 1.
func (s *session) printRun(r cluster.Run) error {
	if s.format == output.Table {
		s.Printf("%s after %s on %s, epoch %d", s.Paint(r.Outcome, pollState(r.Outcome).Tone),
			output.Duration(latency(r)), output.Printable(r.Worker), r.Epoch)
		if r.Message != "" {
			s.Printf(": %s", output.Printable(r.Message))
		}
		s.Printf("\n")
	} else if err := s.Data(r); err != nil {
		return err
	}

	if r.Outcome != "ok" {
		return &ExitError{Code: ExitFailure}
	}
	return nil
}
