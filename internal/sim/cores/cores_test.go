package cores

import (
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/regentd/regent/internal/virtual"
)

// TestMain lets the heap grow: a run lives in few megabytes, so that the collector would else begin anew every few
// seeds.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

// number returns a variable of the environment, or n if it is not set.
func number(t *testing.T, name string, n uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return n
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s %q: %v", name, text, err)
	}
	return n
}

// only returns a violation, unless REGENT_ONLY asks for others: TestMutants stops at the first of its own.
func only(err error) error {
	pattern := os.Getenv("REGENT_ONLY")
	if err != nil && pattern != "" && !regexp.MustCompile(pattern).MatchString(err.Error()) {
		return nil
	}
	return err
}

// stop reports whether no more seeds are to be run after a violation.
func stop(t *testing.T) bool { return t.Failed() && os.Getenv("REGENT_ONLY") != "" }

// TestSeeds runs many clusters: REGENT_SEEDS of them, from seed REGENT_FROM on. What none of them has reached is not
// tested, and so a failure.
func TestSeeds(t *testing.T) {
	n := number(t, "REGENT_SEEDS", 1000)
	from := number(t, "REGENT_FROM", 0)
	if testing.Short() || virtual.Raced {
		n = min(n, 200)
	}
	var reached Reached
	var runner Runner
	for seed := from; seed < from+n; seed++ {
		r, err := runner.Run(seed, nil)
		if only(err) != nil {
			t.Errorf("%v\nreplay it: REGENT_SEED=%d go test -run TestSeed$ -v ./internal/sim/cores", err, seed)
		}
		if stop(t) {
			return
		}
		reached |= r
	}
	if missing := reached.Missing(); len(missing) > 0 && n >= 200 {
		t.Errorf("never reached: %s", strings.Join(missing, ", "))
	}
}

// TestLiveness runs clusters in which the faults stop changing, and stay as they are. A condition that no process was
// in for ever is not tested, and so a failure.
func TestLiveness(t *testing.T) {
	n := number(t, "REGENT_SEEDS", 1000)
	from := number(t, "REGENT_FROM", 0)
	if testing.Short() || virtual.Raced {
		n = min(n, 100)
	}
	var all Conditions
	var runner Runner
	for seed := from; seed < from+n; seed++ {
		c, err := runner.RunLive(seed, nil)
		if only(err) != nil {
			t.Errorf("%v\nreplay it: REGENT_LIVE=1 REGENT_SEED=%d go test -run TestSeed$ -v ./internal/sim/cores",
				err, seed)
		}
		if stop(t) {
			return
		}
		all |= c
	}
	if missing := all.Missing(); len(missing) > 0 && n >= 100 {
		t.Errorf("no process was ever: %s", strings.Join(missing, ", "))
	}
}

// TestSeed prints one run.
func TestSeed(t *testing.T) {
	if os.Getenv("REGENT_SEED") == "" {
		t.Skip("REGENT_SEED names no seed")
	}
	seed := number(t, "REGENT_SEED", 0)
	print := func(line string) { t.Log(line) }
	var err error
	if os.Getenv("REGENT_LIVE") != "" {
		_, err = new(Runner).RunLive(seed, print)
	} else {
		_, err = Run(seed, print)
	}
	if err != nil {
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
			if x, y := lineAt(first, i), lineAt(second, i); x != y {
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
