package cores

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/regentd/regent/internal/virtual"
)

// seeds returns how many seeds to run: SEEDS of the environment, or n.
func seeds(t *testing.T, n uint64) uint64 {
	text := os.Getenv("REGENT_SEEDS")
	if text == "" {
		return n
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("REGENT_SEEDS %q: %v", text, err)
	}
	return n
}

// TestSeeds runs many clusters. What none of them has reached is not tested, and so a failure.
func TestSeeds(t *testing.T) {
	n := seeds(t, 1000)
	if testing.Short() || virtual.Raced {
		n = min(n, 200)
	}
	var reached Reached
	var runner Runner
	for seed := range n {
		r, err := runner.Run(seed, nil)
		if err != nil {
			t.Errorf("%v\nreplay it: REGENT_SEED=%d go test -run TestSeed$ -v ./internal/sim/cores", err, seed)
		}
		reached |= r
	}
	if missing := reached.Missing(); len(missing) > 0 && n >= 200 {
		t.Errorf("never reached: %s", strings.Join(missing, ", "))
	}
}

// TestSeed prints one run.
func TestSeed(t *testing.T) {
	text := os.Getenv("REGENT_SEED")
	if text == "" {
		t.Skip("REGENT_SEED names no seed")
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("REGENT_SEED %q: %v", text, err)
	}
	if _, err := Run(seed, func(line string) { t.Log(line) }); err != nil {
		t.Fatal(err)
	}
}

// TestReplay runs seeds twice, in a new simulation and in one that has run other seeds before, and compares every line.
// It also runs them without a trace, which changes nothing but that.
func TestReplay(t *testing.T) {
	n := uint64(1000)
	if testing.Short() || virtual.Raced {
		n = 20
	}
	var used, untraced Runner
	for seed := range n {
		first := lines(new(Runner), seed)
		second := lines(&used, seed)
		if len(first) < 100 {
			t.Fatalf("seed %d has only %d lines", seed, len(first))
		}
		for i := range max(len(first), len(second)) {
			if x, y := line(first, i), line(second, i); x != y {
				t.Fatalf("seed %d does not replay: line %d is\n%s\nand then\n%s", seed, i+1, x, y)
			}
		}

		_, _ = untraced.Run(seed, nil)
		if a, b := used.sim.numbers, untraced.sim.numbers; a != b {
			t.Fatalf("seed %d with a trace uses %d numbers, and without one %d", seed, a, b)
		}
		if a, b := used.sim.steps, untraced.sim.steps; a != b {
			t.Fatalf("seed %d with a trace has %d steps, and without one %d", seed, a, b)
		}
	}
}

func lines(r *Runner, seed uint64) []string {
	var all []string
	_, _ = r.Run(seed, func(line string) { all = append(all, line) }) // a violation is a line, too
	return all
}

func BenchmarkSeed(b *testing.B) {
	var runner Runner
	b.ReportAllocs()
	defer processorTime(b)()
	for i := range uint64(b.N) {
		if _, err := runner.Run(i, nil); err != nil {
			b.Fatal(err)
		}
	}
}
