package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/slots"
)

// cluster is a cluster of real nodes that runs polls. Each node can be started again with its name, its port and its
// data.
type cluster struct {
	t       *testing.T
	store   string
	env     func(node string) []string // nil for none
	dir     string                     // of the configuration file, and of the data of workers
	polls   int
	args    map[string][]string
	nodes   map[string]*daemon // the last process of each node
	all     []*daemon
	workers []string // those with a journal
	excused int      // how often a slow disk was the reason for a delay
}

func newCluster(t *testing.T, store, config string) *cluster {
	t.Helper()
	c := &cluster{t: t, store: store, dir: inMemory(t), args: map[string][]string{}, nodes: map[string]*daemon{}}
	writeFile(c.t, c.config(), config)
	return c
}

func (c *cluster) config() string { return filepath.Join(c.dir, "regent.yaml") }

// start starts a node for the first time.
func (c *cluster) start(name string, args ...string) *daemon {
	c.t.Helper()
	c.args[name] = append([]string{"--listen", freePort(), "--data-dir", c.dir, "--config", c.config()}, args...)
	return c.again(name)
}

// again starts a node as before.
func (c *cluster) again(name string) *daemon {
	c.t.Helper()
	var env []string
	if c.env != nil {
		env = c.env(name)
	}
	c.nodes[name] = start(c.t, name, c.store, env, c.args[name]...)
	c.all = append(c.all, c.nodes[name])
	return c.nodes[name]
}

var portsGiven sync.Map

// freePort returns an address that nothing else gets while its node is down: no other test, and no connection, for
// which the system takes ports from 32768 on.
func freePort() string {
	for {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(10000+rand.IntN(20000)))
		if _, given := portsGiven.LoadOrStore(address, true); given {
			continue
		}

		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
}

// leader waits until a node leads, other than those in but, and returns it.
func (c *cluster) leader(but ...*daemon) *daemon {
	c.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()

	for limit := time.Now().Add(60 * time.Second); time.Now().Before(limit); <-tick.C {
	next:
		for _, d := range c.nodes {
			for _, not := range but {
				if d == not {
					continue next
				}
			}

			if code, _ := d.get("/leader"); code == http.StatusOK {
				return d
			}
		}
	}

	c.t.Fatal("nobody leads")
	return nil
}

func (c *cluster) journal(worker string) string { return filepath.Join(c.dir, worker, "journal") }

// lines returns the lines that are in the journal of a worker by now.
func (c *cluster) lines(worker string) []journalLine {
	b, _ := os.ReadFile(c.journal(worker)) // the journal may not be there yet
	var all []journalLine
	for text := range bytes.Lines(b) {
		var l journalLine
		if json.Unmarshal(text, &l) == nil { // else the line is being written
			all = append(all, l)
		}
	}

	return all
}

// goesOn waits until a slot of each poll that is due from now on was completed, in the given epoch or a later one.
func (c *cluster) goesOn(epoch uint64) {
	c.t.Helper()
	now := time.Now().UnixMilli()
	waitFor(c.t, "all polls go on", func() bool {
		done := map[string]bool{}
		for _, w := range c.workers {
			for _, l := range c.lines(w) {
				if poll, due, _ := l.slot(); l.Outcome == "done" && due >= now && l.Epoch >= epoch {
					done[poll] = true
				}
			}
		}

		return len(done) == c.polls
	})
}

// check stops all nodes, the leader after the other candidates and before the workers, and runs 'regent slots' on the
// journals.
func (c *cluster) check() slots.Report {
	c.t.Helper()
	last := c.leader()
	for _, d := range c.nodes {
		if d != last && !c.isWorker(d.name) {
			d.stop()
		}
	}

	last.stop()
	args := []string{"slots", "-o", "json", "--config", c.config()}
	for _, w := range c.workers {
		c.nodes[w].stop()
		args = append(args, c.journal(w))
	}

	cmd := command(c.t, nil, args...)
	out, err := cmd.Output()
	var r slots.Report
	if jerr := json.Unmarshal(out, &r); err != nil || jerr != nil {
		c.t.Errorf("regent slots: exit code %d: %v\n%s", cmd.ProcessState.ExitCode(), jerr, out)
	}

	c.t.Logf("%d slots of %d polls in %v, %d retries, %d runs cut short; from due to begun p50 %v, p99 %v, longest %v",
		r.Slots, r.Polls,
		r.To.Sub(r.From).Round(time.Second), r.Retries, r.Cut, r.DelayP50Ms, r.DelayP99Ms, r.DelayMaxMs)

	if r.Polls != c.polls {
		c.t.Errorf("the journals have %d polls, there are %d", r.Polls, c.polls)
	}

	return r
}

func (c *cluster) isWorker(name string) bool {
	for _, w := range c.workers {
		if w == name {
			return true
		}
	}

	return false
}

// webTarget returns the URL of a web server that polls check. It answers slowly, so that a task is always under way.
func webTarget(t *testing.T) (url string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(server.Close)

	return server.URL
}

// everySecond returns a configuration file with polls of a target every second.
func everySecond(polls int, target string) string {
	var b strings.Builder
	b.WriteString("polls:\n")

	for i := range polls {
		fmt.Fprintf(&b, "  p%d: {kind: http, target: %q, interval: 1s}\n", i, target)
	}
	return b.String()
}

// fullCluster starts three candidates, two workers, and ten polls of one second, and waits until all run.
func fullCluster(t *testing.T, store string, args ...string) *cluster {
	t.Helper()
	c := newCluster(t, store, everySecond(10, webTarget(t)))
	c.polls, c.workers = 10, []string{"w1", "w2"}

	for _, name := range []string{"a", "b", "c"} {
		c.start(name, append([]string{"--worker=false"}, args...)...)
	}
	for _, name := range c.workers {
		c.start(name, append([]string{"--eligible=false"}, args...)...)
	}

	c.underWay()
	return c
}

// underWay waits until all polls run, and each worker has completed a task.
func (c *cluster) underWay() {
	c.t.Helper()
	c.goesOn(1)

	for _, w := range c.workers {
		waitFor(c.t, w+" has run something", func() bool {
			return slices.ContainsFunc(c.lines(w), func(l journalLine) bool { return l.Outcome == "done" })
		})
	}
}

// hurried reports whether a node had no time to end its tasks before it stopped, as on a machine that stalls for a
// second.
func (c *cluster) hurried() bool { return c.anySaid("stopping with tasks under way") }

// excuse fails the test, unless a node had to wait for the store since then longer than for a disk that works. It
// accepts that once in a test.
func (c *cluster) excuse(since time.Time, format string, args ...any) {
	c.t.Helper()
	stalled := slices.ContainsFunc(c.all, func(d *daemon) bool {
		return len(d.saidSince("reason=partition|no answer in time", since)) > 0
	})
	c.excused++

	if !stalled || c.excused > 1 {
		c.t.Errorf(format, args...)
	}
}

func (c *cluster) anySaid(pattern string) bool {
	return slices.ContainsFunc(c.all, func(d *daemon) bool { return len(d.said(pattern)) > 0 })
}
