package compare

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == roleCommand || os.Args[1] == "-quick") { // this binary is the bench
		os.Exit(Main(os.Args[1:]))
	}

	if _, err := exec.LookPath("redis-server"); err != nil {
		fmt.Fprintln(os.Stderr, "these tests need a real redis-server: 'make test' installs it (Debian: apt-get "+
			"install redis-server redis-tools)")
		os.Exit(1)
	}

	// A directory of their own shows what is left behind. The user of PostgreSQL must be able to enter it.
	dir, err := os.MkdirTemp("", "bench-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	os.Setenv("TMPDIR", dir)
	code := m.Run()
	if left, _ := filepath.Glob(filepath.Join(dir, "regent-bench-*")); len(left) > 0 && code == 0 {
		fmt.Fprintln(os.Stderr, "left behind:", left)
		code = 1
	}

	os.RemoveAll(dir)
	os.Exit(code)
}

// command is the path of regent, built once.
var command = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(os.TempDir(), "regent")
	return bin, buildRegent(context.Background(), bin)
})

// TestFigures makes every figure in its quick form, on real servers, and checks that it is plausible. It asserts no
// time.
func TestFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}

	t.Parallel()
	checks := map[string]func(*testing.T, []table){
		"takeover": checkTakeover, "processes": checkProcesses, "acquire": checkAcquire, "standbys": checkStandbys,
		"held": checkHeld, "clients": checkClients, "crowd": checkCrowd,
	}
	for _, m := range measurements() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			s := quick()

			if m.name == "processes" {
				var err error
				if s.regent, err = command(); err != nil {
					t.Fatal(err)
				}
			}

			f, err := m.measure(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}

			var b bytes.Buffer
			if err := f.writeMarkdown(&b); err != nil {
				t.Fatal(err)
			}

			t.Log("\n" + b.String())
			for _, tab := range f.Tables {
				for _, r := range tab.Rows {
					if len(r.Values) != len(tab.Columns) {
						t.Errorf("%s: %s has %d values for %d columns", tab.Title, r.Side, len(r.Values),
							len(tab.Columns))
					}
				}
			}

			checks[m.name](t, f.Tables)
		})
	}
}

// value returns a cell of a table.
func value(t *testing.T, tab table, side, column string) float64 {
	t.Helper()
	r := slices.IndexFunc(tab.Rows, func(r row) bool { return r.Side == side })
	c := slices.Index(tab.Columns, column)
	if r < 0 || c < 0 {
		t.Fatalf("%s has no %s of %s", tab.Title, column, side)
	}

	return float64(tab.Rows[r].Values[c])
}

// expectRows checks the sides of a table and their order. PostgreSQL may be missing where it is not installed.
func expectRows(t *testing.T, tab table, sides ...string) {
	t.Helper()
	var got []string
	for _, r := range tab.Rows {
		got = append(got, r.Side)
	}

	if _, err := postgresBinary("postgres"); err != nil {
		t.Log(err)
		sides = slices.DeleteFunc(sides, func(s string) bool {
			return s == advisoryPeer || strings.Contains(s, "postgres")
		})
	}

	if !slices.Equal(got, sides) {
		t.Errorf("%s has rows %q, want %q", tab.Title, got, sides)
	}
}

// ordered checks that the columns of each row grow, from a positive number on.
func ordered(t *testing.T, tab table, columns ...string) {
	t.Helper()

	for _, r := range tab.Rows {
		last := 0.0
		for i, c := range columns {
			v := value(t, tab, r.Side, c)
			if !(v >= last) || i == 0 && v == 0 {
				t.Errorf("%s: %s of %s is %v, after %v", tab.Title, c, r.Side, v, last)
			}
			last = v
		}
	}
}

func checkTakeover(t *testing.T, tables []table) {
	expectRows(t, tables[0], regentLock, regentCluster, rueidisPeer, redsyncPeer, redislockPeer, advisoryPeer)
	ordered(t, tables[0], "least", "p50", "p99", "worst")

	if v := value(t, tables[0], rueidisPeer, "p50 x rueidislock"); v != 1 {
		t.Errorf("the yardstick is %v times itself", v)
	}
	for _, r := range tables[0].Rows {
		if v := value(t, tables[0], r.Side, "rounds"); v != float64(quick().rounds) {
			t.Errorf("%s: %v rounds", r.Side, v)
		}
	}
}

func checkProcesses(t *testing.T, tables []table) {
	ours := []string{"`regent serve`, sqlite, profile lock", "`regent serve`, sqlite, profile cluster",
		"`regent serve`, redis, profile lock", "`regent run`, profile lock", "`regent serve`, redis, profile cluster"}
	for _, tab := range tables {
		expectRows(t, tab, append(slices.Clone(ours), rueidisPeer, redsyncPeer, redislockPeer,
			"`regent serve`, postgres, profile lock", "`regent serve`, postgres, profile cluster", advisoryPeer)...)
		ordered(t, tab, "least", "p50", "p99", "worst")

		for _, side := range ours {
			if v := value(t, tab, side, "lease, s"); v != 30 {
				t.Errorf("%s has a lease of %v s", side, v)
			}
		}
	}

	if n := value(t, tables[1], redsyncPeer, "rounds"); n != float64(quick().leases) {
		t.Errorf("redsync waited %v times for its lease", n)
	}
}

func checkAcquire(t *testing.T, tables []table) {
	store := "Regent, the store alone: two swaps"
	expectRows(t, tables[0], rawPair, store, "`Member.Lead`, profile lock", "`Member.Lead`, profile cluster",
		"`Member.Lead`, profile lock, and the member starts and stops with it", rueidisPeer, redsyncPeer, redislockPeer,
		advisoryPeer)
	expectRows(t, tables[1], rawSet, "Regent, one swap", redsyncPeer, redislockPeer)

	for _, tab := range tables {
		ordered(t, tab, "least", "p50", "p99")
		for _, r := range tab.Rows {
			if v := value(t, tab, r.Side, "allocations"); !(v > 0) {
				t.Errorf("%s: %s makes %v allocations", tab.Title, r.Side, v)
			}
		}
	}

	for side, want := range map[string]float64{rawPair: 2, store: 2, rueidisPeer: 2, redsyncPeer: 2, redislockPeer: 2} {
		if got := value(t, tables[0], side, "requests"); got != want {
			t.Errorf("%s sends %v requests for a pair, want %v", side, got, want)
		}
	}

	for _, r := range tables[1].Rows {
		if got := value(t, tables[1], r.Side, "requests"); got != 1 {
			t.Errorf("%s sends %v requests for a renewal", r.Side, got)
		}
	}
}

func checkStandbys(t *testing.T, tables []table) {
	expectRows(t, tables[0], regentLock, regentCluster, rueidisPeer, redsyncPeer, redislockPeer)
	for _, r := range tables[0].Rows {
		for i, v := range r.Values {
			if !(v >= 0) {
				t.Errorf("%s: %s is %v", r.Side, tables[0].Columns[i], v)
			}
		}
	}

	for _, side := range []string{redsyncPeer, redislockPeer} { // they poll
		if v := value(t, tables[0], side, "leader + 3"); v == 0 {
			t.Errorf("%s asks nothing", side)
		}
	}
}

func checkHeld(t *testing.T, tables []table) {
	expectRows(t, tables[0], regentCluster, rueidisPeer, redsyncPeer, redislockPeer)
	for _, r := range tables[0].Rows {
		for _, c := range []string{"heap, MB", "RSS, MB", "CPU %", "s to acquire all"} {
			if v := value(t, tables[0], r.Side, c); !(v > 0) {
				t.Errorf("%s: %s is %v", r.Side, c, v)
			}
		}
	}

	if n := value(t, tables[0], regentCluster, "goroutines"); n > 50 {
		t.Errorf("Regent has %v goroutines", n)
	}
	if n := value(t, tables[0], redsyncPeer, "goroutines"); n < float64(quick().elections) {
		t.Errorf("redsync has %v goroutines for %d loops", n, quick().elections)
	}
}

func checkClients(t *testing.T, tables []table) {
	for _, r := range tables[0].Rows {
		if v := value(t, tables[0], r.Side, "pairs/s"); !(v > 0) {
			t.Errorf("%s: %v pairs/s", r.Side, v)
		}
	}
}

func checkCrowd(t *testing.T, tables []table) {
	for _, r := range tables[0].Rows {
		if v := value(t, tables[0], r.Side, "changes/s made"); !(v > 0) {
			t.Errorf("%s: %v changes/s", r.Side, v)
		}
	}
}

func TestCommandLine(t *testing.T) {
	if all, err := choose(nil); err != nil || len(all) != 7 {
		t.Errorf("no name: %d, %v", len(all), err)
	}
	if some, err := choose([]string{"held", "takeover"}); err != nil || len(some) != 2 || some[0].name != "held" {
		t.Errorf("two names: %v, %v", some, err)
	}
	if _, err := choose([]string{"speed"}); err == nil || !strings.Contains(err.Error(), "takeover") {
		t.Errorf("an unknown name: %v", err)
	}

	var out, errs bytes.Buffer
	if err := run(t.Context(), []string{"-nosuch"}, nil, &out, &errs); err == nil ||
		!strings.Contains(errs.String(), "-quick") {
		t.Errorf("an unknown flag: %v, %s", err, &errs)
	}
}
