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

// checkSlots is 'regent slots JOURNAL ...': it checks that workers have completed each slot of each poll once.
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
	c := &slots.Checker{Schedules: map[string]schedule.Schedule{}}
	for _, p := range settings.Polls {
		if !p.Enabled {
			continue
		}
		if c.Schedules[p.Name], err = p.Schedule(); err != nil {
			return err
		}
	}
	for _, name := range settings.Args {
		if err := readJournal(c, name); err != nil {
			return err
		}
	}
	r := c.Check()
	if *format == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(r); err != nil {
			return err
		}
	} else {
		tellSlots(out, r)
	}
	if !r.OK() {
		return &exitError{exitFailure, nil}
	}
	return nil
}

func readJournal(c *slots.Checker, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.Read(name, f)
}

func tellSlots(out io.Writer, r *slots.Report) {
	const some = 20
	for _, list := range []struct {
		name  string
		slots []string
	}{{"never ran", r.Never}, {"left out", r.Holes}, {"completed twice", r.Doubles}} {
		for i, s := range list.slots {
			if i == some {
				fmt.Fprintf(out, "%s: and %d more\n", list.name, len(list.slots)-some)
				break
			}
			fmt.Fprintf(out, "%s: %s\n", list.name, s)
		}
	}
	fmt.Fprintf(out, "%d polls, %d slots completed, %d left out, %d completed twice, %d retries, %d runs cut short\n",
		r.Polls, r.Slots, len(r.Holes), len(r.Doubles), r.Retries, r.Cut)
	if r.Again > 0 {
		fmt.Fprintf(out, "%d slots were run again, because a clock went back\n", r.Again)
	}
	if r.Slots > 0 {
		fmt.Fprintf(out, "from due to begun: p50 %v, p99 %v, longest %v (%s)\n", r.DelayP50, r.DelayP99, r.DelayMax, r.Latest)
	}
}
