package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	mutator "github.com/regentd/regent/internal/mutant"
)

// TestTeeth shows that the checker finds what it is there for: the code under test is compiled with
// one rule switched off, and some seed among the first 2,000 must show it. The same without an edit
// must show nothing. Every fifth rule is tried; with REGENT_MUTANTS=all, as in 'make soak', each of them.
func TestTeeth(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs the simulation some fifty times; left out in -short")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	slots := make(chan struct{}, 2) // a mutant takes one core, and the compiler two
	run := func(t *testing.T, m mutant, seeds int) string {
		slots <- struct{}{}
		defer func() { <-slots }()
		return m.run(t, root, seeds)
	}
	t.Run("the_code_as_it_is_passes", func(t *testing.T) {
		t.Parallel()
		out := run(t, mutant{only: safety + " I14 R2 R5 R6 R7 R10 R11"}, 500) // TestSeeds runs more
		if verdict.MatchString(out) || !strings.HasSuffix(strings.TrimSpace(out), "PASS") {
			t.Error(out)
		}
	})
	all := os.Getenv("REGENT_MUTANTS") != ""
	for i, m := range mutants {
		if !all && i%5 != 0 {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			out := run(t, m, 2000)
			if found := verdict.FindStringSubmatch(out); found != nil {
				t.Logf("%s (rule %s): seed %s (%s): %s: %s", m.name, m.rule, found[1], found[2], found[3], found[4])
			} else {
				t.Errorf("rule %s is off, and no seed shows it:\n%s", m.rule, out)
			}
		})
	}
}

// TestTeethApply shows that the edits of every mutant still fit the code.
func TestTeethApply(t *testing.T) {
	for _, m := range mutants {
		if err := mutator.Check("../..", m.overlay()...); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// safety is every invariant whose violation a user would see.
const safety = "I1 I2 I3 I4 I5 I6 I7 I8 I9 I10 I11 I12 I13"

var verdict = regexp.MustCompile(`seed (\d+) \((\w+)\) violates (\w+): (.*)`)

// overlay returns the edits in the form of package mutant.
func (m mutant) overlay() []mutator.Edit {
	var edits []mutator.Edit
	for _, e := range m.edits {
		edits = append(edits, mutator.Edit{File: e.file, Old: e.old, New: e.new})
	}
	return edits
}

// run compiles this package's test over the mutated root package, and returns what it says.
func (m mutant) run(t *testing.T, root string, seeds int) string {
	dir := t.TempDir()
	list, err := mutator.Overlay(root, dir, m.overlay()...)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "sim.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", binary, "-overlay", list, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	only := m.only
	if only == "" {
		only = safety
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	test := exec.CommandContext(ctx, binary, "-test.run", "^TestSeeds$")
	test.Env = append(os.Environ(), "GOMAXPROCS=1", "REGENT_SEEDS="+strconv.Itoa(seeds), "REGENT_FROM=", "REGENT_SEED=",
		"REGENT_FIRST=1", "REGENT_ONLY="+only)
	out, err := test.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return fmt.Sprintf("%s\n%v, %v", out, err, ctx.Err())
	}
	return string(out)
}
