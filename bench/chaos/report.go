package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// printGaps prints how long nobody led.
func printGaps(out io.Writer, p plan, gaps []time.Duration) {
	slices.Sort(gaps)
	fmt.Fprintf(out, "%d times SIG%s: another leads after p50 %v, longest %v\n", len(gaps), p.signal,
		gaps[len(gaps)/2].Round(time.Millisecond),
		gaps[len(gaps)-1].Round(time.Millisecond))
}

// usage is the resources that the leader has used.
type usage struct {
	leader             *node
	at                 time.Time
	cpu, allocs, bytes float64
	slots, memory      float64
	goroutines         float64
}

// usage reads the leader's metrics.
func (c *cluster) usage(ctx context.Context) (usage, error) {
	p, err := c.leader(ctx, nil)
	if err != nil {
		return usage{}, err
	}

	resp, err := c.client.Get("http://" + p.addr + "/metrics")
	if err != nil {
		return usage{}, err
	}
	defer resp.Body.Close()

	u := usage{leader: p, at: time.Now()}
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		name, value, _ := strings.Cut(in.Text(), " ")
		v, _ := strconv.ParseFloat(value, 64)
		switch {
		case name == "process_cpu_seconds_total":
			u.cpu = v
		case name == "go_memstats_mallocs_total":
			u.allocs = v
		case name == "go_memstats_alloc_bytes_total":
			u.bytes = v
		case name == "process_resident_memory_bytes":
			u.memory = v
		case name == "go_goroutines":
			u.goroutines = v
		case strings.HasPrefix(name, "regent_polls_total{"):
			u.slots += v
		}
	}

	return u, nil
}

// printUsage prints the resources that the leader has used since before, per slot.
func (c *cluster) printUsage(ctx context.Context, out io.Writer, before usage) error {
	after, err := c.usage(ctx)
	if err != nil {
		return err
	}

	slots := after.slots - before.slots
	if after.leader != before.leader || slots == 0 {
		return fmt.Errorf("the leader has changed, or has completed no slot")
	}

	took := after.at.Sub(before.at).Seconds()
	fmt.Fprintf(out, "leader: %.0f slots/s, %.0f %% of one core, %.0f µs, %.0f allocations and %.1f KB per slot, "+
		"%.0f MB, %.0f goroutines\n", slots/took,
		100*(after.cpu-before.cpu)/took, 1e6*(after.cpu-before.cpu)/slots, (after.allocs-before.allocs)/slots,
		(after.bytes-before.bytes)/slots/1024,
		after.memory/(1<<20), after.goroutines)

	return nil
}

// check runs 'regent slots' on the journals, and reports whether they are in order.
func (c *cluster) check(out io.Writer) (bool, error) {
	journals, err := filepath.Glob(filepath.Join(c.dir, "data", "*", "journal"))
	if err != nil {
		return false, err
	}

	cmd := exec.Command(c.binary, append([]string{"slots", "--config", filepath.Join(c.dir, "regent.yaml")},
		journals...)...)
	cmd.Stdout = out
	cmd.Stderr = os.Stderr
	err = cmd.Run()

	if cmd.ProcessState == nil {
		return false, err
	}
	return cmd.ProcessState.Success(), nil
}
