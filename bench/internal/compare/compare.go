// Package compare measures Regent and its peers, on real servers that it starts on free ports of the loopback and stops
// at the end. The commands bench and bench/peers are its two faces.
//
// All sides of a figure take turns in the same run, so that the noise of the machine affects all of them. Ratios and
// counts are more reliable than times.
package compare

import (
	"cmp"
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

// settings says how much is measured.
type settings struct {
	rounds    int           // of each side, where each is measured by itself
	leases    int           // how many of them, where a takeover waits for a lease to expire
	lease     time.Duration // of the peers that are processes
	window    time.Duration // over which requests are counted
	settle    time.Duration // before the window: in the profile lock polls become rarer for 75 s
	groups    []int         // how many standbys wait
	elections int           // held by one process
	acquire   time.Duration // how much longer than waitLimit it may take to acquire them
	crowd     int           // clients of one server, each with an election of its own
	regent    string        // the command; empty to build it from the checkout
}

// full returns the settings of a full run.
func full() settings {
	return settings{
		rounds: 100, leases: 15, lease: 3 * time.Second, window: time.Minute, settle: 80 * time.Second,
		groups: []int{0, 1, 10, 100}, elections: 10_000, crowd: 1000,
	}
}

// quick returns the settings of a small run.
func quick() settings {
	return settings{
		rounds: 2, leases: 1, lease: 3 * time.Second, window: time.Second, settle: time.Second,
		groups: []int{0, 1, 3}, elections: 300, crowd: 10,
	}
}

// measurements returns all figures, in the order in which they run.
func measurements() []measurement {
	return []measurement{
		{"takeover", "Takeover after a release, in the library", takeover, ""},
		{"processes", "Takeover of processes", processes, ""},
		{"acquire", "Acquire and release, and one renewal", acquire, ""},
		{"clients", "Terms of several clients at once", clients, ""},
		{"standbys", "What standbys cost while nothing changes", standbys, ""},
		{"held", "Many elections held by one process", held, ""},
		{"crowd", "What a client pays for the changes of others", crowd, ""},
	}
}

// measurement makes a figure.
type measurement struct {
	name, title string
	run         func(context.Context, *lab, settings) ([]table, error)
	command     string // by which it is made; empty for that of the command bench
}

// Main runs the command bench, and returns its exit code.
func Main(args []string) (exitCode int) { return invoke(args, run) }

// invoke runs a command, and returns its exit code.
func invoke(args []string, run func(context.Context, []string, io.Reader, io.Writer, io.Writer) error) (exitCode int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	err := run(ctx, args, os.Stdin, os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}

	return 0
}

// run makes the figures that args name.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) error {
	if len(args) > 0 && args[0] == roleCommand {
		return runRole(ctx, args[1:], in, out, sides)
	}

	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(errs)
	small := set.Bool("quick", false, "a small run, to check that everything works")
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
		s.rounds = *rounds
		s.leases = min(s.leases, *rounds)
	}

	if *window > 0 {
		s.window = *window
	}

	chosen, err := choose(set.Args())
	if err != nil {
		return err
	}

	return measureAll(ctx, chosen, s, *asJSON, out)
}

// measureAll makes figures, and writes each as Markdown when it is done, or all as JSON at the end.
func measureAll(ctx context.Context, chosen []measurement, s settings, asJSON bool, out io.Writer) error {
	var figures []figure
	for _, m := range chosen {
		f, err := m.measure(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}

		figures = append(figures, f)
		if !asJSON {
			if err := f.writeMarkdown(out); err != nil {
				return err
			}
		}
	}

	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(figures)
	}

	return nil
}

// choose returns the measurements with these names, or all if there are none.
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
			return nil, fmt.Errorf("no figure %q; there are %s", name, strings.Join(known, ", "))
		}

		chosen = append(chosen, all[i])
	}

	return chosen, nil
}

// measure makes a figure in a lab of its own, which is closed before it returns.
func (m measurement) measure(ctx context.Context, s settings) (figure, error) {
	l, err := newLab()
	if err != nil {
		return figure{}, err
	}
	defer l.close()

	f := figure{Name: m.name, Command: cmp.Or(m.command, "go run ./bench "+m.name), Title: m.title,
		LoadBefore: loadAverage()}
	began := time.Now()
	f.Tables, err = m.run(ctx, l, s)
	f.Took = time.Since(began).Round(time.Second).String()
	f.LoadAfter = loadAverage()

	return f, err
}
