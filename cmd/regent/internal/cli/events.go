package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
)

// reconnectAfter is the wait before a broken stream is opened again.
const reconnectAfter = time.Second

// eventOptions are the flags of 'regent events'.
type eventOptions struct {
	follow bool
	last   int
	kind   string
}

func eventsCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events [flags]",
		Short: "what has happened on a node, and with --follow what happens",
		Long: `Prints the events that a node keeps, at least the last 1,000, one a line. With --follow it goes on
as they come. A stream that breaks is opened again and goes on where it was; if events were lost, a
line says so.

Exit codes: 0 they were printed, or Ctrl-C; 69 no node answers.`,
		Example: `  regent events
  regent events --follow
  regent events --kind coordinator: -o json`,
		GroupID: GroupSee,
		Args:    noArguments,
	}
	t := newTarget(env, cmd, noNames, 0)
	var opts eventOptions
	flags := cmd.Flags()
	flags.BoolVarP(&opts.follow, "follow", "f", false, "go on with new events until Ctrl-C")
	flags.IntVarP(&opts.last, "last", "n", 0, "begin with the last `number` of events; 0 for all")
	flags.StringVar(&opts.kind, "kind", "", "only kinds that begin with this `text`, such as coordinator:")
	cmd.RunE = t.run(func(ctx context.Context, s *session, _ []string) error {
		if opts.last < 0 {
			return UsageError(cmd, "--last %d: must not be negative", opts.last)
		}
		return s.events(ctx, opts)
	})

	return cmd
}

// events prints the events of a node.
func (s *session) events(ctx context.Context, opts eventOptions) error {
	kept, from, err := s.keptEvents(ctx, opts)
	if err != nil {
		return err
	}
	for _, e := range kept {
		if err := s.printEvent(e); err != nil {
			return err
		}
	}

	for opts.follow && ctx.Err() == nil {
		for e, err := range s.cluster.Events(ctx, from) {
			if err != nil {
				if ctx.Err() == nil {
					fmt.Fprintf(s.Errs, "%v; trying again\n", err)
				}
				break
			}

			if e.ID != "" {
				from = e.ID
			}
			if e.EndOfKept || !s.wanted(e, opts) {
				continue
			}
			if err := s.printEvent(e); err != nil {
				return err
			}
		}

		select {
		case <-ctx.Done():
		case <-time.After(reconnectAfter):
		}
	}

	return nil
}

// keptEvents returns the events that the node keeps, and the ID of the newest.
func (s *session) keptEvents(ctx context.Context, opts eventOptions) ([]cluster.StreamEvent, string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	silent := fmt.Errorf("%s has sent nothing for %v", s.cluster.Where(), askTimeout)
	timer := time.AfterFunc(askTimeout, func() { cancel(silent) })
	defer timer.Stop()

	var kept []cluster.StreamEvent
	from := ""
	for e, err := range s.cluster.Events(ctx, "") {
		if errors.Is(context.Cause(ctx), silent) {
			return nil, "", &ExitError{ExitUnreachable, silent}
		}
		if err != nil {
			return nil, "", err
		}

		timer.Reset(askTimeout)
		if e.EndOfKept {
			break
		}
		if e.ID != "" {
			from = e.ID
		}
		if s.wanted(e, opts) {
			kept = append(kept, e)
		}
	}

	if opts.last > 0 && len(kept) > opts.last {
		kept = kept[len(kept)-opts.last:]
	}
	return kept, from, nil
}

// wanted reports whether an event is printed.
func (s *session) wanted(e cluster.StreamEvent, opts eventOptions) bool {
	gap := strings.HasPrefix(string(e.Kind), "stream:") // what was lost concerns everybody
	election := !s.settings.Given("election") || e.Election == "" || e.Election == s.settings.Election
	return gap || strings.HasPrefix(string(e.Kind), opts.kind) && election
}

func (s *session) printEvent(e cluster.StreamEvent) error {
	if s.format != output.Table {
		return s.Line(e)
	}

	s.Printf("%s  %s  %s", output.Time(e.Time), s.Paint(string(e.Kind), eventTone(e)), output.Printable(e.Node))
	if e.Election != "" {
		s.Printf(" %s epoch %d", output.Printable(e.Election), e.Epoch)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Metadata)) {
		s.Printf(" %s=%s", output.Printable(name), value(e.Metadata[name]))
	}
	measured := e.Measurements
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		if name != "time" {
			s.Printf(" %s=%.6g", output.Printable(name), measured[name])
		}
	}
	s.Printf("\n")

	return nil
}

// value returns a text of an event, in quotes if it has spaces.
func value(text string) string {
	if text == "" || strings.ContainsAny(text, " =\"\t\n") {
		return fmt.Sprintf("%q", text)
	}
	return output.Printable(text)
}

// eventTone returns how the kind of an event is shown.
func eventTone(e cluster.StreamEvent) output.Tone {
	kind := string(e.Kind)
	bad := []string{"lost", "dropped", "failed", "stuck", "regressed", "unreadable", "panicked", "gap", "down"}
	switch {
	case slices.ContainsFunc(bad, func(word string) bool { return strings.Contains(kind, word) }):
		return output.Bad
	case strings.Contains(kind, "became_leader"):
		return output.Good
	case strings.Contains(kind, "detected"), strings.Contains(kind, "waiting"), strings.Contains(kind, "differs"):
		return output.Warning
	}
	return output.Plain
}
