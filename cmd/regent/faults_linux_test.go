package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
)

// libprogram is the program that uses the library, built once.
var libprogram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "regent-test-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "libprogram")
	out, err := exec.Command("go", "build", "-o", bin, "./internal/libprogram").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})

// fault is what happens to a store.
type fault struct {
	name    string
	lasts   time.Duration
	total   bool // no request is answered while it lasts
	proxied bool // it is the network's, not the server's
	begin   func(*episode)
	end     func(*episode)
}

func hung(lasts time.Duration) fault {
	return fault{
		name: "hung_for_" + lasts.String(), lasts: lasts, total: true,
		begin: func(e *episode) { freeze(e.redis.cmd.Process.Pid) },
		end:   func(e *episode) { _ = e.redis.cmd.Process.Signal(syscall.SIGCONT) },
	}
}

// storeFaults are the faults of the short form. Each lasts longer than a lease of 6 s, but the
// first.
func storeFaults() []fault {
	heal := func(e *episode) { e.proxy.heal() }
	const lasts = 8 * time.Second
	return []fault{
		hung(4 * time.Second),
		hung(8 * time.Second),
		{
			name: "refused", lasts: lasts, total: true,
			begin: func(e *episode) { _ = e.redis.cmd.Process.Kill(); _ = e.redis.cmd.Wait() },
			end:   func(e *episode) { e.redis.start() },
		},
		{
			name: "each_answer_3s_late", lasts: lasts, proxied: true,
			begin: func(e *episode) { e.proxy.late.Store(int64(3 * time.Second)) },
			end:   heal,
		},
		{
			name: "one_byte_at_a_time", lasts: lasts, proxied: true,
			begin: func(e *episode) { e.proxy.single.Store(true) },
			end:   heal,
		},
		{
			name: "answers_lost", lasts: lasts, total: true, proxied: true,
			begin: func(e *episode) { e.proxy.cutFrom.Store(true) },
			end:   heal,
		},
		{
			name: "requests_lost", lasts: lasts, total: true, proxied: true,
			begin: func(e *episode) { e.proxy.cutTo.Store(true) },
			end:   heal,
		},
	}
}

// cell is one election of an episode: two processes of one kind that campaign for it.
type cell struct {
	name    string
	kind    string // serve, run or library
	profile string
	reaper  bool
	cfg     regent.Config
	nodes   []*daemon
	ledger  *ledger
}

// shortLock is the profile lock with the lease of the profile cluster.
func shortLock() regent.Config {
	c := regent.Lock()
	c.LeaseDuration = 6 * time.Second
	c.RenewInterval = 1500 * time.Millisecond
	c.StopTimeout = time.Second
	c.HeartbeatInterval = 1500 * time.Millisecond
	c.WorkerTimeout = 6 * time.Second
	c.ElectionIntervalMax = 10 * time.Second
	return c
}

// cells returns every kind of process with every profile, with a reaper and without.
func cells(lock regent.Config) []*cell {
	var all []*cell
	for _, kind := range []string{"serve", "run", "library"} {
		for _, reaper := range []bool{true, false} {
			for _, c := range []*cell{
				{kind: kind, profile: "cluster", reaper: reaper, cfg: regent.Cluster()},
				{kind: kind, profile: "lock", reaper: reaper, cfg: lock},
			} {
				if kind == "run" { // to stop a program takes longer where so many processes run
					more := max(0, 3*time.Second-c.cfg.StopTimeout)
					c.cfg.LeaseDuration += more
					c.cfg.StopTimeout += more
				}
				all = append(all, c)
			}
		}
	}
	return all
}

// episode is one fault of one store, and the processes that meet it.
type episode struct {
	t     *testing.T
	fault fault
	redis *redisServer
	proxy *proxy
	cells []*cell
	began time.Duration
	ended time.Duration
	heals time.Duration // when the store answers again, at the latest
	quit  chan struct{} // ends the polling
	done  chan struct{} // closed when the fault is over
}

// newEpisode starts a store and all processes.
func newEpisode(t *testing.T, f fault, cells []*cell) *episode {
	t.Helper()
	e := &episode{
		t: t, fault: f, redis: startRedis(t), cells: cells,
		quit: make(chan struct{}),
		done: make(chan struct{}),
	}
	if f.proxied {
		e.proxy = startProxy(t, "127.0.0.1:"+e.redis.port)
	}
	for _, c := range cells {
		c.name = fmt.Sprintf("%s-%s-%v", c.kind, c.profile, c.cfg.LeaseDuration)
		if c.reaper {
			c.name += "-reaper"
		}
		c.ledger = newLedger()
		for _, suffix := range []string{"a", "b"} {
			c.nodes = append(c.nodes, e.launch(c, c.name+"-"+suffix))
		}
	}
	return e
}

// launch starts one process. The elections of an episode share the server and nothing else.
func (e *episode) launch(c *cell, name string) *daemon {
	e.t.Helper()
	program, err := libprogram()
	if err != nil {
		e.t.Fatal(err)
	}

	store := e.redis.address()
	if e.proxy != nil {
		store = e.proxy.address()
	}
	store += "?prefix=" + c.name + ":"

	flags := []string{
		"--election", c.name, "--profile", c.profile, "--reaper=" + strconv.FormatBool(c.reaper),
		"--lease-duration", c.cfg.LeaseDuration.String(), "--stop-timeout", c.cfg.StopTimeout.String(),
		"--heartbeat-interval", c.cfg.HeartbeatInterval.String(), "--worker-timeout", c.cfg.WorkerTimeout.String(),
		"--takeover-delay", c.cfg.TakeoverDelay.String(), "--election-interval-max", c.cfg.ElectionIntervalMax.String(),
	}
	if c.cfg.OwnLease {
		flags = append(flags, "--renew-interval", c.cfg.RenewInterval.String())
	}

	switch c.kind {
	case "serve":
		return launch(e.t, name, command(e.t, nil, serveArgs(e.t, name, store, flags...)...), nil)
	case "run":
		args := append([]string{"run", c.name, "--node", name, "--store", store, "--restart"}, flags[2:]...)
		return launch(e.t, name, command(e.t, nil, append(args, "--", program, "claim")...), c.ledger.parse)
	}
	setup, err := json.Marshal(map[string]any{
		"Store": store, "Node": name, "Election": c.name, "Config": c.cfg, "Reaper": c.reaper,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return launch(e.t, name, exec.Command(program, "member", string(setup)), c.ledger.parse)
}

// ready waits until each election has a leader, and a standby that knows it.
func (e *episode) ready() {
	e.t.Helper()
	for _, c := range e.cells {
		for _, n := range c.nodes {
			if c.kind == "serve" {
				n.serves()
				go pollLeader(n, c.ledger, e.quit)
			}
		}
	}
	for _, c := range e.cells {
		for _, n := range c.nodes {
			n.await(`msg="became leader"|msg="leader changed"`)
		}
		if _, err := c.ledger.await(0, time.After(time.Minute)); err != nil {
			e.t.Fatalf("%s: %v", c.name, err)
		}
	}
}

// play is the fault, from its beginning to its end. It begins a little later than the others, so
// that not all programs are stopped at once.
func (e *episode) play(later time.Duration) {
	defer close(e.done)
	<-time.After(later)
	e.fault.begin(e)
	e.began = boottime()
	<-time.After(e.fault.lasts)
	e.ended = boottime()
	e.fault.end(e)
	e.heals = boottime()
}

// verify checks what became of the processes.
func (e *episode) verify(t *testing.T) {
	<-e.done
	for _, c := range e.cells {
		bound := c.cfg.LeaseDuration + c.cfg.TakeoverDelay
		limit := e.heals + max(3*bound, 30*time.Second)
		found, err := c.ledger.await(e.ended, time.After(limit-boottime()))
		if err != nil {
			t.Errorf("%s: %v since the store answers again", c.name, err)
			continue
		}
		t.Logf("%s: %s leads %v after the store answers again; lease and takeover delay are %v",
			c.name, found.Node, (found.After - e.heals).Round(time.Millisecond), bound)
	}
	for _, c := range e.cells {
		for _, n := range c.nodes {
			if !running(n.cmd.Process.Pid) {
				t.Errorf("%s has died", n.name)
			}
			for _, line := range n.said(`silent past its deadline|duty:stuck|panic`) {
				t.Errorf("%s says: %s", n.name, line)
			}
		}
		if e.fault.total {
			c.verifyDeadline(t, e.began, e.ended)
		}
	}

	close(e.quit)
	for _, c := range e.cells {
		c.terminate()
	}
	for _, c := range e.cells {
		c.gone(t)
		for _, text := range overlaps(c.ledger.sessions()) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
}

// verifyDeadline checks that nobody leads past its deadline while the store answers nothing. The
// last heartbeat that counts was sent before the fault began.
func (c *cell) verifyDeadline(t *testing.T, began, ended time.Duration) {
	trusted := c.cfg.LeaseDuration - c.cfg.LeaseDuration/500 - c.cfg.StopTimeout
	if c.kind == "run" {
		// The program is a process of its own, which a busy machine may be slow to end.
		trusted += c.cfg.StopTimeout + 20*time.Second
	}
	if late := c.ledger.within(began+trusted, ended); len(late) > 0 {
		t.Errorf("%s: %d claims past the deadline, the last %v after the store's last answer: %+v", c.name, len(late),
			late[len(late)-1].Before-began, late[len(late)-1])
	}
}

// terminate asks the processes of a cell to stop.
func (c *cell) terminate() {
	for _, n := range c.nodes {
		_ = n.cmd.Process.Signal(syscall.SIGTERM)
	}
}

// gone waits until the processes of a cell have stopped, and checks that they have stopped well.
func (c *cell) gone(t *testing.T) {
	for _, n := range c.nodes {
		select {
		case <-n.gone:
		case <-time.After(time.Minute):
			t.Errorf("%s does not stop", n.name)
			continue
		}
		codes := []int{0}
		if c.kind == "run" {
			codes = append(codes, 128+int(syscall.SIGTERM)) // a standby's
		}
		if code := n.cmd.ProcessState.ExitCode(); !slices.Contains(codes, code) {
			t.Errorf("%s: exit code %d", n.name, code)
		}
	}
}

// TestStoreFaults has real processes meet the faults of a real store. Nobody dies, nobody leads
// past its deadline, and somebody leads when the store answers again. A few faults are played at
// the same time, each on a server of its own, since most of this is waiting.
func TestStoreFaults(t *testing.T) {
	const atOnce = 4
	t.Parallel()
	for faults := range slices.Chunk(storeFaults(), atOnce) {
		var all []*episode
		for _, f := range faults {
			which := cells(shortLock())
			if f.name == "hung_for_8s" {
				which = append(which, &cell{kind: "serve", profile: "lock", reaper: true, cfg: regent.Lock()})
			}
			all = append(all, newEpisode(t, f, which))
		}
		playAll(t, all)
	}
}

// TestStoreFaultsLong is the part that takes minutes: 'make faults' runs it.
func TestStoreFaultsLong(t *testing.T) {
	if os.Getenv("REGENT_LONG") == "" {
		t.Skip("it takes minutes: set REGENT_LONG, or run 'make faults'")
	}
	playAll(t, []*episode{newEpisode(t, hung(time.Minute), cells(regent.Lock()))})
}

// TestRunWithHungStore has two 'regent run' without --restart meet a store that hangs. The leader
// stops its program and exits with 90, as it does whenever leadership is lost. The standby lives,
// and runs the program when the store answers again.
func TestRunWithHungStore(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"cluster", "lock"} {
		t.Run("the_leader_exits_with_90_and_the_standby_takes_over_"+profile, func(t *testing.T) {
			t.Parallel()
			program, err := libprogram()
			if err != nil {
				t.Fatal(err)
			}
			redis := startRedis(t)
			claims := newLedger()
			run := func(name string) *daemon {
				args := []string{
					"run", "job", "--node", name, "--store", redis.address(), "--profile", profile,
					"--lease-duration", "8s", "--stop-timeout", "3s", "--worker-timeout", "8s",
					"--heartbeat-interval", "1500ms", "--takeover-delay", "500ms",
				}
				if profile == "lock" {
					args = append(args, "--renew-interval", "1500ms")
				}
				return launch(t, name, command(t, nil, append(args, "--", program, "claim")...), claims.parse)
			}
			leader := run("a")
			leader.await(`msg="became leader"`)
			standby := run("b")
			standby.await(`msg="leader changed"`)
			if _, err := claims.await(0, time.After(time.Minute)); err != nil {
				t.Fatal(err)
			}

			freeze(redis.cmd.Process.Pid)
			leader.await(`regent: leadership lost`)
			if !running(standby.cmd.Process.Pid) {
				t.Error("the standby has died")
			}

			answers := boottime()
			_ = redis.cmd.Process.Signal(syscall.SIGCONT)
			next, err := claims.await(answers, time.After(time.Minute))
			if err != nil || next.Node != "b" {
				t.Errorf("%+v, %v", next, err)
			}
			t.Logf("the standby leads %v after the store answers again", next.After-answers)
			select {
			case <-leader.gone:
			case <-time.After(time.Minute):
				t.Fatal("the leader, or its reaper, does not end")
			}
			if code := leader.cmd.ProcessState.ExitCode(); code != 90 {
				t.Errorf("the leader exits with %d", code)
			}
			for _, n := range []*daemon{leader, standby} {
				for _, line := range n.said(`silent past its deadline|duty:stuck`) {
					t.Errorf("%s says: %s", n.name, line)
				}
			}
			for _, text := range overlaps(claims.sessions()) {
				t.Error(text)
			}
		})
	}
}

func TestOverlaps(t *testing.T) {
	at := func(node string, epoch uint64, times ...time.Duration) *ledger {
		l := newLedger()
		for _, x := range times {
			l.add(claim{Node: node, Epoch: epoch, Before: 10 * x, After: 10*x + 1})
		}
		return l
	}
	for name, c := range map[string]struct {
		other *ledger
		want  int
	}{
		"two_nodes_that_lead_at_once_are_found":                  {at("b", 2, 2, 4), 1},
		"two_terms_of_one_node_at_once_are_found":                {at("a", 2, 2, 4), 1},
		"a_node_that_leads_after_another_is_not":                 {at("b", 2, 3, 4), 0},
		"claims_of_one_term_do_not_count_against_each_other":     {at("a", 1, 2, 4), 0},
		"a_single_claim_proves_no_time_at_which_its_node_leads":  {at("b", 2, 2), 0},
		"two_claims_around_the_end_of_another_term_are_an_error": {at("b", 2, 2, 3), 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := at("a", 1, 1, 3)
			l.all = append(l.all, c.other.all...)
			if found := overlaps(l.sessions()); len(found) != c.want {
				t.Error(found)
			}
		})
	}
}

// playAll plays episodes at the same time, and verifies each.
func playAll(t *testing.T, all []*episode) {
	t.Helper()
	for _, e := range all {
		e.ready()
	}
	for i, e := range all {
		go e.play(time.Duration(i) * time.Second)
	}
	for _, e := range all {
		t.Run("nobody_dies_or_leads_on_with_a_store_"+e.fault.name, e.verify)
	}
}

// freeze stops a process, and returns when all its threads have stopped.
func freeze(pid int) {
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	for state(pid) == "R" || state(pid) == "S" || state(pid) == "D" {
	}
}

// running reports whether a process lives.
func running(pid int) bool {
	s := state(pid)
	return s != "" && s != "Z" && s != "X"
}

// state returns the state of a process as the kernel shows it, or nothing if there is none.
func state(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	text := string(b)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}
