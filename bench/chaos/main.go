// Command chaos runs a cluster of real processes under load, kills its leader again and again, and checks the journals
// of the workers with 'regent slots': each slot of each poll completed once, none left out. From the top of the
// repository:
//
//	go run ./bench/chaos    # 3 nodes, 2 workers; the leader killed every 10 s for 5 minutes
//	go run ./bench/chaos -nodes 1 -workers 20 -polls 10000 -interval 10s -for 1m -kill-every 0
//	go run ./bench/chaos -workers 20 -polls 10000 -interval 10s -for 4m -kill-every 10s
//
// Everything is on the loopback, and removed at the end. The exit code is that of the check.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// plan configures a run.
type plan struct {
	nodes, workers, polls int
	interval              time.Duration
	kind                  string
	length                time.Duration
	killEvery             time.Duration
	signal                string
	rolling               bool
	both                  bool
	keep                  string
	verbose               bool
}

func main() { os.Exit(invoke(os.Args[1:], os.Stdout)) }

// invoke runs the command, and returns its exit code.
func invoke(args []string, out io.Writer) int {
	var p plan
	set := flag.NewFlagSet("chaos", flag.ContinueOnError)
	set.IntVar(&p.nodes, "nodes", 3, "nodes that may lead")
	set.IntVar(&p.workers, "workers", 2, "nodes that only work")
	set.IntVar(&p.polls, "polls", 50, "polls")
	set.DurationVar(&p.interval, "interval", time.Second, "the interval of each poll")
	set.StringVar(&p.kind, "kind", "http", "http or tcp: how polls check the local web server")
	set.DurationVar(&p.length, "for", 5*time.Minute, "how long the cluster runs")
	set.DurationVar(&p.killEvery, "kill-every", 10*time.Second, "how often the leader is ended; 0 for never")
	set.StringVar(&p.signal, "signal", "KILL", "KILL or TERM: how it is ended")
	set.BoolVar(&p.rolling, "rolling", false, "end one process after the other, workers too, not the leader alone")
	set.BoolVar(&p.both, "both", false, "nodes that may lead take tasks too")
	set.StringVar(&p.keep, "keep", "", "an empty directory for journals and logs, which is not removed")
	set.BoolVar(&p.verbose, "v", false, "print each takeover")

	if err := set.Parse(args); err != nil {
		return 64
	}

	if err := p.validate(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 64
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	ok, err := run(ctx, p, out)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	case !ok:
		return 1
	}

	return 0
}

// validate returns an error that names the flag, its value and the rule that it breaks.
func (p plan) validate() error {
	switch {
	case p.nodes < 1:
		return fmt.Errorf("-nodes %d: must be at least 1", p.nodes)
	case p.workers < 1:
		return fmt.Errorf("-workers %d: must be at least 1", p.workers)
	case p.polls < 1:
		return fmt.Errorf("-polls %d: must be at least 1", p.polls)
	case p.signal != "KILL" && p.signal != "TERM":
		return fmt.Errorf("-signal %q: must be KILL or TERM", p.signal)
	case p.kind != "http" && p.kind != "tcp":
		return fmt.Errorf("-kind %q: must be http or tcp", p.kind)
	}

	return nil
}

// run runs the cluster, and reports whether the journals are in order.
func run(ctx context.Context, p plan, out io.Writer) (bool, error) {
	c, err := newCluster(p)
	if err != nil {
		return false, err
	}
	defer c.close()

	if err := c.start(ctx); err != nil {
		return false, err
	}

	fmt.Fprintf(out, "%d nodes, %d workers, %d %s polls every %v\n", p.nodes, p.workers, p.polls, p.kind, p.interval)
	before, err := c.usage(ctx)
	if err != nil {
		return false, err
	}

	gaps, err := c.disturb(ctx, out)
	if err != nil {
		return false, err
	}

	if len(gaps) > 0 {
		printGaps(out, p, gaps)
	} else if err := c.printUsage(ctx, out, before); err != nil {
		return false, err
	}

	if err := c.stop(); err != nil {
		return false, err
	}

	return c.check(out)
}
