package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
)

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

// cells returns every kind of process with every profile, with a reaper and without.
func cells(lock regent.Config) []*cell {
	var all []*cell
	for _, kind := range []string{"serve", "run", "library"} {
		for _, reaper := range []bool{true, false} {
			for _, c := range []*cell{
				{kind: kind, profile: "cluster", reaper: reaper, cfg: regent.Cluster()},
				{kind: kind, profile: "lock", reaper: reaper, cfg: lock},
			} {
				// Where so many processes run, it takes longer to stop, for a program longest. The deadline stays as it
				// is.
				stop := 5 * time.Second
				if kind == "run" {
					stop = 15 * time.Second
				}

				more := max(0, stop-c.cfg.StopTimeout)
				c.cfg.LeaseDuration += more
				c.cfg.StopTimeout += more
				c.cfg.WorkerTimeout += more
				all = append(all, c)
			}
		}
	}

	return all
}

// fewCells returns one kind of process with each profile, one of them with a reaper.
func fewCells() []*cell {
	return slices.DeleteFunc(cells(shortLock()), func(c *cell) bool {
		return c.kind == "run" || (c.kind == "serve") != c.reaper || (c.profile == "cluster") != c.reaper
	})
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

// episode is one fault of one store, and the processes that use the store.
type episode struct {
	t     *testing.T
	fault fault
	store faultyStore
	proxy *proxy
	cells []*cell
	began time.Duration
	ended time.Duration
	heals time.Duration // when the store answers again, at the latest
	quit  chan struct{} // ends the polling
	done  chan struct{} // closed when the fault is over
}

// newEpisode starts all processes on a store.
func newEpisode(t *testing.T, f fault, store faultyStore, cells []*cell) *episode {
	t.Helper()
	e := &episode{
		t: t, fault: f, store: store, cells: cells,
		quit: make(chan struct{}),
		done: make(chan struct{}),
	}

	if f.proxied {
		e.proxy = startProxy(t, store.endpoint())
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

	at := e.store.endpoint()
	if e.proxy != nil {
		at = e.proxy.listener.Addr().String()
	}
	store := e.store.address(at, c.name)

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

// loseTerms saves what the store holds, and ends the term of each election while it does so. It returns when the next
// terms have begun, which the store will forget and all members know of.
func (e *episode) loseTerms() {
	e.t.Helper()
	e.store.kill()
	began := boottime()
	e.store.save()
	for _, c := range e.cells {
		for _, n := range c.nodes {
			if n.name == c.ledger.last().Node {
				n.await(`msg="lost leadership"`)
			}
		}
	}
	e.store.start()

	for _, c := range e.cells {
		next, err := c.ledger.await(began+c.cfg.LeaseDuration, time.After(2*time.Minute))
		if err != nil {
			e.t.Fatalf("%s: %v in a term that is to be lost", c.name, err)
		}
		for _, n := range c.nodes {
			n.await(fmt.Sprintf(`msg="(?:became leader|leader changed)".* epoch=%d\b`, next.Epoch))
		}
	}
}

// play begins and ends the fault. It begins later than the others by a little, so that not all programs are stopped at
// once.
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

// verify checks that no process died, that no two led at once, and that somebody leads again.
func (e *episode) verify(t *testing.T) {
	<-e.done
	for _, c := range e.cells {
		bound := c.cfg.LeaseDuration + c.cfg.TakeoverDelay
		limit := e.heals + max(3*bound, 30*time.Second)
		if e.fault.keeps { // the store does not answer with one voice
			limit += 3 * time.Minute
		}
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

	if e.fault.prepare != nil {
		e.verifyLoss(t)
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
		for _, text := range fallen(c.ledger.sessions()) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
}

// verifyLoss checks that members find that the store has lost writes, and that somebody leads after that: until then it
// may be the leader of the lost term.
func (e *episode) verifyLoss(t *testing.T) {
	t.Helper()
	for _, c := range e.cells {
		waitFor(t, "a member of "+c.name+" says that the store has lost writes", func() bool {
			return slices.ContainsFunc(c.nodes, func(n *daemon) bool { return len(n.said(`msg=store:regressed`)) > 0 })
		})

		found, err := c.ledger.await(boottime(), time.After(2*time.Minute))
		if err != nil {
			t.Errorf("%s: %v since the loss was found", c.name, err)
			continue
		}
		t.Logf("%s: %s leads %v after the store answers again, the loss being known", c.name, found.Node,
			(found.After - e.heals).Round(time.Millisecond))
	}
}

// verifyDeadline checks that nobody leads past its deadline while the store does not answer. The last heartbeat that
// counts was sent before the fault began.
func (c *cell) verifyDeadline(t *testing.T, began, ended time.Duration) {
	trusted := c.cfg.LeaseDuration - c.cfg.LeaseDuration/500 - c.cfg.StopTimeout
	if c.kind == "run" {
		// The program is a process of its own, and a busy machine may be slow to end it.
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

// gone waits until the processes of a cell have stopped, and checks their exit codes.
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
			codes = append(codes, 128+int(syscall.SIGTERM)) // of a standby
		}
		if code := n.cmd.ProcessState.ExitCode(); !slices.Contains(codes, code) {
			t.Errorf("%s: exit code %d", n.name, code)
		}
	}
}

// playAll plays episodes at the same time, and verifies each.
func playAll(t *testing.T, all []*episode) {
	t.Helper()

	for _, e := range all {
		e.ready()
	}
	var prepared sync.WaitGroup
	for _, e := range all {
		if e.fault.prepare != nil {
			prepared.Go(func() { e.fault.prepare(e) })
		}
	}
	prepared.Wait()
	if t.Failed() {
		t.FailNow()
	}

	for i, e := range all {
		go e.play(time.Duration(i) * time.Second)
	}

	for _, e := range all {
		t.Run("nobody_dies_or_leads_on_with_a_store_"+e.fault.name, e.verify)
	}
}
