package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/cmd/regent/internal/schedule"
	"github.com/regentd/regent/cmd/regent/internal/slots"
)

// checkSlots is 'regent slots [flags] JOURNAL ...': it checks that workers have completed each slot of each poll once.
func checkSlots(args []string, out io.Writer) error {
	set := flag.NewFlagSet("regent slots", flag.ContinueOnError)
	format := set.String("o", "text", "text or json")
	source := config.Flags(set, "config")

	switch err := config.Parse(set, args); {
	case errors.Is(err, flag.ErrHelp):
		_, err := io.WriteString(out, usage)
		return err
	case err != nil:
		return fmt.Errorf("slots: %w", err)
	case *format != "text" && *format != "json":
		return fmt.Errorf("output format %q: must be text or json: %w", *format, errUsage)
	}

	settings, err := source.Load(os.Environ(), config.ReadFile)
	if err != nil {
		return err
	}
	if len(settings.Args) == 0 {
		return fmt.Errorf("slots needs the journals of all workers: regent slots JOURNAL ...: %w", errUsage)
	}

	report, err := checkJournals(settings)
	if err != nil {
		return err
	}
	if err := writeReport(out, report, *format); err != nil {
		return err
	}
	if !report.OK() {
		return &exitError{exitFailure, nil}
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

// writeReport writes a report as text or as JSON.
func writeReport(out io.Writer, r *slots.Report, format string) error {
	if format == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
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
		fmt.Fprintf(out, "from due to begun: p50 %v, p99 %v, longest %v (%s)\n", r.DelayP50, r.DelayP99, r.DelayMax,
			r.Latest)
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
