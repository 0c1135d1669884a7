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
	for seed := range n {
		r, err := Run(seed, nil)
		if err != nil {
			t.Errorf("%v\nreplay it: REGENT_SEED=%d go test -run TestSeed$ -v ./internal/sim/cores", err, seed)
		}
		reached |= r
	}
	for i, name := range reachedNames {
		if reached&(1<<i) == 0 && n >= 200 {
			t.Errorf("never reached: %s", name)
		}
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

// TestReplay runs seeds twice and compares every line.
func TestReplay(t *testing.T) {
	n := uint64(100)
	if testing.Short() || virtual.Raced {
		n = 10
	}
	for seed := range n {
		first := lines(seed)
		second := lines(seed)
		if len(first) < 100 {
			t.Fatalf("seed %d has only %d lines", seed, len(first))
		}
		if a, b := strings.Join(first, "\n"), strings.Join(second, "\n"); a != b {
			t.Fatalf("seed %d does not replay", seed)
		}
	}
}

func lines(seed uint64) []string {
	var all []string
	_, _ = Run(seed, func(line string) { all = append(all, line) }) // a violation is a line, too
	return all
}

func BenchmarkSeed(b *testing.B) {
	for i := range uint64(b.N) {
		if _, err := Run(i, nil); err != nil {
			b.Fatal(err)
		}
	}
}
