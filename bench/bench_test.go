package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == roleCommand || os.Args[1] == "-quick") { // this binary plays the bench's part
		os.Exit(invoke(os.Args[1:]))
	}
	if len(os.Args) > 1 && os.Args[1] == cronCommand {
		if err := playCron(os.Args[2:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		fmt.Fprintln(os.Stderr, "these tests need a real redis-server: 'make test' installs it (Debian: apt-get install redis-server redis-tools)")
		os.Exit(1)
	}
	// A directory of their own shows what is left behind. PostgreSQL's other user must get through.
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

// command is regent, built once.
var command = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(os.TempDir(), "regent")
	return bin, buildRegent(context.Background(), bin)
})

// TestFigures makes every figure in its quick form, on real servers, and looks whether it can be true. No time is asserted.
func TestFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	t.Parallel()
	checks := map[string]func(*testing.T, []table){
		"takeover": checkTakeover, "processes": checkProcesses, "acquire": checkAcquire, "standbys": checkStandbys, "held": checkHeld,
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
						t.Errorf("%s: %s has %d values for %d columns", tab.Title, r.Side, len(r.Values), len(tab.Columns))
					}
				}
			}
			checks[m.name](t, f.Tables)
		})
	}
}

// value returns what a table says of a side.
func value(t *testing.T, tab table, side, column string) float64 {
	t.Helper()
	r := slices.IndexFunc(tab.Rows, func(r row) bool { return r.Side == side })
	c := slices.Index(tab.Columns, column)
	if r < 0 || c < 0 {
		t.Fatalf("%s has no %s of %s", tab.Title, column, side)
	}
	return float64(tab.Rows[r].Values[c])
}

// expectRows checks which sides there are, in which order. PostgreSQL's may be missing where it is not installed.
func expectRows(t *testing.T, tab table, sides ...string) {
	t.Helper()
	var got []string
	for _, r := range tab.Rows {
		got = append(got, r.Side)
	}
	if _, err := postgresBinary("postgres"); err != nil {
		t.Log(err)
		sides = slices.DeleteFunc(sides, func(s string) bool { return s == advisoryPeer })
	}
	if !slices.Equal(got, sides) {
		t.Errorf("%s has rows %q, want %q", tab.Title, got, sides)
	}
}

// ordered checks that columns grow, of all sides, from something positive on.
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
	ours := []string{"`regent serve`, profile lock", "`regent run`, profile lock", "`regent serve`, profile cluster"}
	for _, tab := range tables {
		expectRows(t, tab, append(slices.Clone(ours), rueidisPeer, redsyncPeer, redislockPeer, advisoryPeer)...)
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
		"`Member.Lead`, profile lock, and the member starts and stops with it", rueidisPeer, redsyncPeer, redislockPeer, advisoryPeer)
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
	for _, side := range []string{redsyncPeer, redislockPeer} { // which poll
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
	if n := value(t, tables[0], redsyncPeer, "goroutines"); n < float64(quick().seats) {
		t.Errorf("redsync has %v goroutines for %d loops", n, quick().seats)
	}
}

func TestSample(t *testing.T) {
	var hundred sample
	for i := 100; i > 0; i-- {
		hundred = append(hundred, time.Duration(i)*time.Millisecond)
	}
	for p, want := range map[int]time.Duration{0: 1, 1: 1, 50: 50, 99: 99, 100: 100} {
		if got := hundred.at(p); got != want*time.Millisecond {
			t.Errorf("percentile %d of 1 to 100 ms is %v", p, got)
		}
	}
	if hundred[0] != 100*time.Millisecond {
		t.Error("a sample is not sorted in place")
	}
	if got := (sample{time.Millisecond, 3 * time.Millisecond}).ms(50, 99); got[0] != 1 || got[1] != 3 {
		t.Errorf("of two: %v", got)
	}
	if got := hundred.us(100); got[0] != 100_000 {
		t.Errorf("in µs: %v", got)
	}
	if got := ratio(hundred, sample{20 * time.Millisecond}, 50); got != 2.5 {
		t.Errorf("ratio: %v", got)
	}
	for _, got := range append(sample{}.ms(50), ratio(nil, hundred, 50)) {
		if !math.IsNaN(float64(got)) {
			t.Errorf("of nothing: %v", got)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[number]string{0: "0", 1: "1", 0.0123: "0.012", 0.5: "0.50", 9.876: "9.88", 12.34: "12.3", 123.4: "123", 1234.5: "1,234", 1234567: "1,234,567", -1234567: "-1,234,567"} {
		if got := n.String(); got != want {
			t.Errorf("%v is written %q, want %q", float64(n), got, want)
		}
	}
	if none.String() != "" {
		t.Errorf("what was not measured is written %q", none)
	}
	b, err := json.Marshal(row{"a", []number{1.5, none}})
	if err != nil || string(b) != `{"side":"a","values":[1.5,null]}` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestCalls(t *testing.T) {
	before := parseCalls("# Commandstats\r\ncmdstat_get:calls=10,usec=12,usec_per_call=1.20\r\ncmdstat_info:calls=1,usec=1\r\n")
	after := parseCalls("cmdstat_get:calls=15,usec=12\r\ncmdstat_evalsha:calls=7,usec=99\r\ncmdstat_client|tracking:calls=2,usec=1\r\ncmdstat_info:calls=2,usec=1\r\n")
	if before["get"] != 10 || after["client|tracking"] != 2 || len(before) != 2 {
		t.Errorf("%v, %v", before, after)
	}
	if n := requests(before, after, nil); n != 14 {
		t.Errorf("%d requests, want 14", n)
	}
	if n := requests(before, after, []string{"get"}); n != 9 {
		t.Errorf("%d requests without what scripts call, want 9", n)
	}
}

func TestCommandLine(t *testing.T) {
	if all, err := choose(nil); err != nil || len(all) != 5 {
		t.Errorf("no name: %d, %v", len(all), err)
	}
	if some, err := choose([]string{"held", "takeover"}); err != nil || len(some) != 2 || some[0].name != "held" {
		t.Errorf("two names: %v, %v", some, err)
	}
	if _, err := choose([]string{"speed"}); err == nil || !strings.Contains(err.Error(), "takeover") {
		t.Errorf("an unknown name: %v", err)
	}
	var out, errs bytes.Buffer
	if err := run(t.Context(), []string{"-nosuch"}, nil, &out, &errs); err == nil || !strings.Contains(errs.String(), "-quick") {
		t.Errorf("an unknown flag: %v, %s", err, &errs)
	}
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	f := figure{Name: "x", Title: "X", Tables: []table{{Title: "ms", Columns: []string{"p50", "p99"}, Rows: []row{{"a", []number{1, none}}}, Notes: []string{"Note."}}}}
	if err := f.writeMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	if want := "| ms | p50 | p99 |\n|---|---|---|\n| a | 1 |  |\n\nNote.\n"; !strings.Contains(b.String(), want) {
		t.Errorf("%s lacks %s", b.String(), want)
	}
}

// TestRequestsOfScripts checks that what Regent's scripts call is known here, so that a request of each kind counts as one.
func TestRequestsOfScripts(t *testing.T) {
	l, err := newLab()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	srv, err := l.redis()
	if err != nil {
		t.Fatal(err)
	}
	store, err := l.store(t.Context(), srv)
	if err != nil {
		t.Fatal(err)
	}
	claim := swaps(store)
	for _, profile := range []struct{ via string }{{""}, {driver.MemberRegister("bench")}} {
		seat := driver.Record{Name: "seat" + profile.via, Via: profile.via, Holder: driver.Identity{ID: "bench", Incarnation: "1"}, Epoch: 1, Nonce: 1, Duration: time.Minute}
		op := operation{server: srv, inScripts: scripted, do: func(ctx context.Context) (err error) {
			if seat, err = store.Swap(ctx, seat); err == nil {
				seat.Nonce++
				_, err = store.Get(ctx, seat.Name)
			}
			return errors.Join(err, claim(ctx))
		}}
		if err := op.do(t.Context()); err != nil { // the server learns the scripts
			t.Fatal(err)
		}
		if err := op.count(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		if op.requests != 4 {
			t.Errorf("a renewal, a read, a claim and a release count as %v requests, want 4", op.requests)
		}
	}
}

// TestUnwoken has the waiters of a lineage miss that nobody leads.
func TestUnwoken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		peer bool
		deaf int // how many waiters in a row miss it
		good bool
	}{
		"a_peer's_round_is_repeated":         {true, 1, true},
		"not_for_ever":                       {true, 100, false},
		"and_that_of_Regent_is_not_repeated": {false, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const (
				holds = "mkdir lock && echo leads; trap 'rmdir lock; exit' TERM; while :; do sleep 0.02; done"
				waits = "echo waits; until mkdir lock 2>/dev/null; do sleep 0.02; done; rmdir lock; " + holds
				never = "echo waits; exec sleep 1000"
			)
			started := 0
			b := breed{name: "x", waits: "waits", leads: "leads", byLease: c.peer, command: func(string) *exec.Cmd {
				started++
				script := waits
				if started%2 == 0 && started/2 <= c.deaf { // the one after it replaces it
					script = never
				}
				if started == 1 {
					script = holds
				}
				return exec.Command("sh", "-c", script)
			}}
			g, err := newLineage(b, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { g.close() }()
			g.most = 2 * time.Second
			_, err = g.succeed(t.Context(), syscall.SIGTERM)
			if good := err == nil; good != c.good {
				t.Errorf("%d waiters missed it: %v", g.unwoken, err)
			}
		})
	}
}
