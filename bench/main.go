// Command bench measures Regent beside its peers, on real servers that it starts on free ports of the loopback and stops at the end.
//
//	go run ./bench                    every figure, as Markdown
//	go run ./bench takeover acquire   these
//	go run ./bench -quick -json       a small run, as JSON
//
// All sides of a figure take turns in the same run, so that the noise of the machine hits all of them: trust ratios and counts before times.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings say how much is measured.
type settings struct {
	rounds int           // of what is timed one by one
	leases int           // rounds of those that wait for a lease to run out
	lease  time.Duration // of the peers that are processes
	window time.Duration // over which requests are counted
	settle time.Duration // before that: in the profile lock polls grow rarer for 75 s
	crowds []int         // how many standbys wait
	seats  int           // held by one process
	regent string        // the command; empty to build it from the checkout
}

func full() settings {
	return settings{rounds: 100, leases: 15, lease: 3 * time.Second, window: time.Minute, settle: 80 * time.Second, crowds: []int{0, 1, 10, 100}, seats: 10_000}
}

func quick() settings {
	return settings{rounds: 2, leases: 1, lease: 3 * time.Second, window: time.Second, settle: time.Second, crowds: []int{0, 1, 3}, seats: 300}
}

// measurements are all figures, in the order in which they run.
func measurements() []measurement {
	return []measurement{
		{"takeover", "Takeover after a release, in the library", takeover},
		{"processes", "Takeover of processes", processes},
		{"acquire", "Acquire and release, and one renewal", acquire},
		{"standbys", "What standbys cost while nothing changes", standbys},
		{"held", "Many elections held by one process", held},
	}
}

// measurement is how a figure is made.
type measurement struct {
	name, title string
	run         func(context.Context, *lab, settings) ([]table, error)
}

func main() { os.Exit(invoke(os.Args[1:])) }

func invoke(args []string) (exitCode int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, args, os.Stdin, os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) error {
	if len(args) > 0 && args[0] == roleCommand {
		return playRole(ctx, args[1:], in, out)
	}
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(errs)
	small := set.Bool("quick", false, "a small run, to see that everything works")
	asJSON := set.Bool("json", false, "print JSON instead of Markdown")
	rounds := set.Int("rounds", 0, "rounds of each side; 0 for the default")
	window := set.Duration("window", 0, "how long requests are counted; 0 for the default")
	command := set.String("regent", "", "the regent command to measure; built from the checkout if empty")
	if err := set.Parse(args); err != nil {
		return err
	}
	s := full()
	if *small {
		s = quick()
	}
	s.regent = *command
	if *rounds > 0 {
		s.rounds, s.leases = *rounds, min(s.leases, *rounds)
	}
	if *window > 0 {
		s.window = *window
	}
	chosen, err := choose(set.Args())
	if err != nil {
		return err
	}
	var figures []figure
	for _, m := range chosen {
		f, err := m.measure(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if figures = append(figures, f); !*asJSON {
			if err := f.writeMarkdown(out); err != nil {
				return err
			}
		}
	}
	if *asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(figures)
	}
	return nil
}

// choose returns the measurements that are named, or all.
func choose(names []string) ([]measurement, error) {
	all := measurements()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []measurement
	for _, name := range names {
		i := slices.IndexFunc(all, func(m measurement) bool { return m.name == name })
		if i < 0 {
			var known []string
			for _, m := range all {
				known = append(known, m.name)
			}
			return nil, fmt.Errorf("there is no figure %q, but %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// measure makes a figure in a lab of its own, which is cleared away before it returns.
func (m measurement) measure(ctx context.Context, s settings) (figure, error) {
	l, err := newLab()
	if err != nil {
		return figure{}, err
	}
	defer l.close()
	f := figure{Name: m.name, Title: m.title, LoadBefore: loadAverage()}
	began := time.Now()
	f.Tables, err = m.run(ctx, l, s)
	f.Took, f.LoadAfter = time.Since(began).Round(time.Second).String(), loadAverage()
	return f, err
}
