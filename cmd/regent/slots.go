package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/cli"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/cmd/regent/internal/schedule"
	"github.com/regentd/regent/cmd/regent/internal/slots"
)

// slotsCmd is 'regent slots [flags] JOURNAL ...': it checks that workers have completed each slot of each poll
// once.
func slotsCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "slots [flags] JOURNAL ...",
		Short:   "check the journals of all workers: each slot of each poll once, none left out",
		Long:    slotsLong,
		Example: "  regent slots --config regent.yaml regent-data/node-a/journal regent-data/node-b/journal",
		GroupID: cli.GroupSee,
	}
	format := cmd.Flags().StringP("output", "o", "text", "the `format`: text, json or yaml")
	source := config.Flags(cmd.Flags(), "config")

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !slices.Contains([]string{"text", "json", "yaml"}, *format):
			return cli.UsageError(cmd, "output format %q: must be text, json or yaml", *format)
		case len(args) == 0:
			return cli.UsageError(cmd, "slots needs the journals of all workers: regent slots JOURNAL ...")
		}

		settings, err := source.Load(os.Environ(), config.ReadFile)
		if err != nil {
			return err
		}

		return checkSlots(settings, *format, io)
	}

	return cmd
}

func checkSlots(settings *config.Settings, format string, io streams) error {
	report, err := checkJournals(settings)
	if err != nil {
		return err
	}
	if err := writeReport(io.out, report, format); err != nil {
		return err
	}
	if !report.OK() {
		return &exitError{Code: exitFailure}
	}

	return nil
}

// checkJournals checks the journals that the arguments name against the schedules of the polls in the file, if any.
func checkJournals(s *config.Settings) (*slots.Report, error) {
	c := &slots.Checker{Schedules: map[string]schedule.Schedule{}}
	for _, p := range s.Polls {
		if !p.Enabled {
			continue
		}
		schedule, err := p.Schedule()
		if err != nil {
			return nil, err
		}

		c.Schedules[p.Name] = schedule
	}

	for _, name := range s.Args {
		if err := readJournal(c, name); err != nil {
			return nil, err
		}
	}

	return c.Check(), nil
}

func readJournal(c *slots.Checker, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()

	return c.Read(name, f)
}

// writeReport writes a report as text, JSON or YAML.
func writeReport(out io.Writer, r *slots.Report, format string) error {
	if format != "text" {
		p := output.Printer{Out: out, Format: output.Format(format)}
		return p.Data(r)
	}

	writeSlots(out, "never ran", r.Never)
	writeSlots(out, "left out", r.Holes)
	writeSlots(out, "completed twice", r.Doubles)
	fmt.Fprintf(out, "%d polls, %d slots completed, %d left out, %d completed twice, %d retries, %d runs cut short\n",
		r.Polls, r.Slots, len(r.Holes), len(r.Doubles), r.Retries, r.Cut)

	if r.Again > 0 {
		fmt.Fprintf(out, "%d slots were run again, because a clock went back\n", r.Again)
	}
	if r.Slots > 0 {
		delay := func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
		fmt.Fprintf(out, "from due to begun: p50 %v, p99 %v, longest %v (%s)\n", delay(r.DelayP50Ms),
			delay(r.DelayP99Ms), delay(r.DelayMaxMs), r.Latest)
	}

	return nil
}

// writeSlots writes the first slots of a list, one a line, and how many more there are.
func writeSlots(out io.Writer, what string, all []string) {
	const most = 20
	for _, slot := range all[:min(most, len(all))] {
		fmt.Fprintf(out, "%s: %s\n", what, slot)
	}

	if more := len(all) - most; more > 0 {
		fmt.Fprintf(out, "%s: and %d more\n", what, more)
	}
}
