package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/elections"
)

// term is a term of an election, as 'regent history' prints it.
type term struct {
	Epoch  uint64    `json:"epoch"`
	Leader string    `json:"leader"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended,omitzero"` // left out for the current term, and if it is not known
	Reason string    `json:"reason,omitempty"`
	GapMs  *int64    `json:"gapMs,omitempty"` // how long nobody led before it, by two wall clocks
}

func historyCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history [ELECTION] [flags]",
		Short: "the terms of an election, the gaps between them, and why each ended",
		Long: `Lists the last 32 terms of an election, oldest first, with the time that nobody led between two of
them. Times are those of the wall clocks of the leaders.

Exit codes: 0 it was printed; 1 there is no such election; 69 neither a node nor the store answers.`,
		Example: `  regent history
  regent history nightly -o json
  regent history nightly --store redis://db:6379`,
		GroupID: GroupSee,
		Args:    atMostOne,
	}
	t := newTarget(env, cmd, electionNames, 1)
	t.addTimeout(cmd)
	cmd.RunE = t.run(func(ctx context.Context, s *session, args []string) error {
		name, err := s.election(ctx, args)
		if err != nil {
			return err
		}

		terms, err := s.terms(ctx, name)
		switch {
		case err != nil:
			return err
		case s.format != output.Table:
			return s.Data(map[string]any{"election": name, "terms": terms})
		}

		s.printTerms(name, terms)
		return nil
	})

	return cmd
}

// terms returns the terms of an election, the current one last.
func (s *session) terms(ctx context.Context, name string) ([]term, error) {
	ctx, done := s.bounded(ctx)
	defer done()

	past, err := s.cluster.History(ctx, name)
	if err != nil {
		return nil, err
	}
	now, err := s.cluster.Election(ctx, name)
	if err != nil {
		return nil, err
	}

	terms := []term{}
	for _, p := range past.Terms {
		terms = append(terms, term{Epoch: p.Epoch, Leader: p.Holder, Began: p.Began, Ended: p.Ended, Reason: p.Reason})
	}
	if n := len(terms); now.State != elections.Vacant && (n == 0 || terms[n-1].Epoch < now.Epoch) {
		terms = append(terms, current(now))
	}

	for i := 1; i < len(terms); i++ {
		if before := terms[i-1]; before.Epoch+1 == terms[i].Epoch && !before.Ended.IsZero() {
			gap := max(0, terms[i].Began.Sub(before.Ended)).Milliseconds()
			terms[i].GapMs = &gap
		}
	}

	return terms, nil
}

// current returns the term that the record of an election shows: the current one, or the last one if its leader is dead
// and nobody has taken over.
func current(e cluster.Election) term {
	t := term{Epoch: e.Epoch, Leader: e.Holder, Began: e.Since}
	if e.State == elections.Expired && e.Why != nil {
		t.Ended = e.Why.Ended
		t.Reason = e.Why.Reason
	}
	return t
}

// longGap is the time without a leader from which on it is shown as bad.
const longGap = time.Second

func (s *session) printTerms(name string, terms []term) {
	s.Printf("%s\n", s.Paint("Election "+name, output.Strong))
	if len(terms) == 0 {
		s.Printf("it has no terms\n")
		return
	}

	table := &output.Rows{Header: []string{"EPOCH", "LEADER", "BEGAN", "ENDED", "LASTED", "GAP BEFORE",
		"ENDED BECAUSE"}}
	for i, t := range terms {
		gap := output.C("")
		switch {
		case t.GapMs != nil:
			tone := output.Plain
			worked := terms[i-1].Reason != string(regent.ReasonReturned) // else there was no work left
			if worked && *t.GapMs >= longGap.Milliseconds() {
				tone = output.Bad
			}
			gap = output.Toned(output.Milliseconds(*t.GapMs), tone)
		case i > 0 && terms[i-1].Epoch+1 < t.Epoch:
			gap = output.Toned(fmt.Sprintf("%d terms are not known", t.Epoch-terms[i-1].Epoch-1), output.Warning)
		}

		ended, lasted, reason := output.Time(t.Ended), "", ""
		if t.Reason != "" {
			reason = elections.Sentence(t.Leader, regent.Reason(t.Reason))
		}
		if t.Ended.IsZero() && reason != "" {
			ended = "not known"
		} else if t.Ended.IsZero() {
			ended = "leads now"
			lasted = output.Duration(max(0, time.Since(t.Began)))
		} else if !t.Began.IsZero() {
			lasted = output.Duration(max(0, t.Ended.Sub(t.Began)))
		}

		table.Add(output.C(fmt.Sprint(t.Epoch)), output.C(t.Leader), output.C(output.Time(t.Began)), output.C(ended),
			output.C(lasted), gap, output.C(reason))
	}

	s.Table(table)
}

func watchCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [ELECTION ...] [flags]",
		Short: "a line for each change of leader, as it happens",
		Long: `Prints who leads, and then a line for each change: a new leader, nobody leads, paused, resumed. It
goes on until Ctrl-C, also while the node does not answer.

Exit codes: 0 it was interrupted; 1 there is no such election; 69 neither a node nor the store
answers the first question.`,
		Example: `  regent watch
  regent watch coordinator nightly
  regent watch -o json`,
		GroupID: GroupSee,
	}
	t := newTarget(env, cmd, electionNames, 0)
	interval := cmd.Flags().Duration("interval", time.Second, "the `time` between two questions")
	cmd.RunE = t.run(func(ctx context.Context, s *session, args []string) error {
		if *interval < 100*time.Millisecond {
			return UsageError(cmd, "--interval %v: must be at least 100ms", *interval)
		}
		return s.watch(ctx, args, *interval)
	})

	return cmd
}

// change is a line of 'regent watch'.
type change struct {
	Time     time.Time       `json:"time"`
	Election string          `json:"election"`
	State    elections.State `json:"state"`
	Leader   string          `json:"leader"`
	Epoch    uint64          `json:"epoch"`
	Paused   bool            `json:"paused"`
	Finished bool            `json:"finished,omitempty"`
	Why      string          `json:"why"`
}

// watch prints changes until ctx ends.
func (s *session) watch(ctx context.Context, names []string, interval time.Duration) error {
	seen := map[string]change{}
	silent := false
	for first := true; ; first = false {
		chosen, err := s.chosen(ctx, names)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil && !silent:
			fmt.Fprintf(s.Errs, "no answer: %v\n", err)
		}
		silent = err != nil

		for _, e := range chosen {
			c := change{
				Election: e.Name, State: e.State, Leader: e.Leader, Epoch: e.Epoch, Paused: e.Paused,
				Finished: e.Finished,
			}
			if old, ok := seen[e.Name]; ok && old == c {
				continue
			}
			seen[e.Name] = c

			c.Time = time.Now()
			c.Why = reasonOf(e)
			if err := s.printChange(c); err != nil {
				return err
			}
		}

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// chosen returns the named elections as they are now; all if none is named.
func (s *session) chosen(ctx context.Context, names []string) ([]cluster.Election, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()

	all, err := s.cluster.Elections(ctx)
	if err != nil {
		return nil, err
	}
	return choose(all, names)
}

func (s *session) printChange(c change) error {
	if s.format != output.Table {
		return s.Line(c)
	}

	what := s.Paint("nobody leads", output.Bad)
	switch {
	case c.Finished:
		what = "finished"
	case c.State == elections.Led:
		what = s.Paint(c.Leader+" leads", output.Good)
	}
	if c.Paused {
		what += ", " + s.Paint("paused", output.Bad)
	}

	s.Printf("%s  %s: %s, epoch %d: %s\n", output.Time(c.Time), output.Printable(c.Election), what, c.Epoch,
		output.Printable(c.Why))
	return nil
}
