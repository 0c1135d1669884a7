package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// embeddedBinary is the command with an etcd member in it, built once.
var embeddedBinary = sync.OnceValues(func() (string, error) {
	return build("regent-embedded", ".", "-tags", "embedded")
})

// embeddedCluster is a cluster of real nodes whose store runs inside of them.
type embeddedCluster struct {
	t     *testing.T
	dir   string
	query string // what the addresses of all nodes share
	args  []string
	more  func(name string) string // of the address of one node; nil for nothing
	nodes map[string]*daemon
	all   []*daemon // that were ever started
}

// newEmbedded returns a cluster of nodes that have not started. More is added to their addresses.
func newEmbedded(t *testing.T, more string, args ...string) *embeddedCluster {
	t.Helper()
	var peers, clients []string
	for _, name := range []string{"a", "b", "c"} {
		peers = append(peers, name+"="+freePort())
		clients = append(clients, name+"="+freePort())
	}
	return &embeddedCluster{
		t: t, dir: inMemory(t), args: args, nodes: map[string]*daemon{},
		query: "?peers=" + strings.Join(peers, ",") + "&clients=" + strings.Join(clients, ",") + more,
	}
}

// data returns the directory of a member.
func (c *embeddedCluster) data(name string) string { return filepath.Join(c.dir, name) }

// address returns the store's address of a node.
func (c *embeddedCluster) address(name string) string {
	more := ""
	if c.more != nil {
		more = c.more(name)
	}
	return "etcd+embedded:" + c.data(name) + c.query + more
}

// start starts nodes, one after another, and waits until they serve.
func (c *embeddedCluster) start(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.launch(name, c.command(c.serve(name)...))
	}
}

// serve returns the arguments of a node.
func (c *embeddedCluster) serve(name string) []string {
	args := []string{
		"serve", "--node", name, "--store", c.address(name), "--listen", "127.0.0.1:0",
		"--data-dir", filepath.Join(c.dir, "work-"+name),
	}
	return append(args, c.args...)
}

func (c *embeddedCluster) launch(name string, cmd *exec.Cmd) {
	c.t.Helper()
	d := launch(c.t, name, cmd, nil)
	c.nodes[name] = d
	c.all = append(c.all, d)
	c.t.Cleanup(c.end)
	d.serves()
}

// end ends all nodes, and then their reapers: with the nodes the store is gone, so these would try until the lease has
// expired.
func (c *embeddedCluster) end() {
	for _, d := range c.all {
		_ = d.cmd.Process.Kill()
	}
	for _, d := range c.all {
		d.endRest()
	}
	c.all = nil
}

func (c *embeddedCluster) command(args ...string) *exec.Cmd {
	return commandOf(c.t, embeddedBinary, nil, args...)
}

// run runs a command that must succeed, and returns its output.
func (c *embeddedCluster) run(args ...string) string {
	c.t.Helper()
	code, out := ends(c.t, c.command(args...))
	if code != 0 {
		c.t.Fatalf("regent %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// kill ends a node at once.
func (c *embeddedCluster) kill(name string) {
	c.t.Helper()
	c.nodes[name].signal(syscall.SIGKILL)
	delete(c.nodes, name)
}

// leader waits until one node leads and all nodes that run name it.
func (c *embeddedCluster) leader() (name string, epoch uint64) {
	c.t.Helper()
	waitFor(c.t, "all nodes name one leader that leads", func() bool {
		name = ""
		for _, n := range c.nodes {
			_, health := n.get("/readyz")
			led, _ := health["leader"].(string)
			if led == "" || name != "" && led != name || c.nodes[led] == nil {
				return false
			}
			name = led
		}
		code, body := c.nodes[name].get("/leader")
		e, _ := body["epoch"].(float64)
		epoch = uint64(e)
		return code == http.StatusOK
	})
	return name, epoch
}

// members returns the states of the etcd members, by name.
func (c *embeddedCluster) members() map[string]string {
	c.t.Helper()
	out, err := c.command("etcd", "members", "-o", "json", "--store", c.address("a")).Output()
	var all []struct{ Name, State string }
	if err == nil {
		err = json.Unmarshal(out, &all)
	}
	if err != nil {
		c.t.Fatalf("regent etcd members: %v\n%s", err, out)
	}
	states := map[string]string{}
	for _, m := range all {
		states[m.Name] = m.State
	}
	return states
}

// etcdLeader waits until the etcd cluster has a leader, and returns it.
func (c *embeddedCluster) etcdLeader() (found string) {
	c.t.Helper()
	waitFor(c.t, "the etcd cluster has a leader", func() bool {
		for name, state := range c.members() {
			if state == "leader" {
				found = name
				return true
			}
		}
		return false
	})
	return found
}

// together makes the node that leads the etcd cluster lead the election too.
func (c *embeddedCluster) together() (name string, epoch uint64) {
	c.t.Helper()
	want := c.etcdLeader()
	if name, _ := c.leader(); name != want {
		c.handOff(name, want)
	}
	for name != want {
		name, epoch = c.leader()
	}
	return name, epoch
}

// handOff hands the election over. A member that has just come back is refused until the leader has seen it.
func (c *embeddedCluster) handOff(from, to string) {
	c.t.Helper()
	waitFor(c.t, from+" hands over to "+to, func() bool {
		code, _ := ends(c.t, c.command("handoff", "--to", to, "--wait", "--yes", "--addr", c.nodes[from].url))
		return code == 0
	})
}

// others returns the nodes that run, but one.
func (c *embeddedCluster) others(but string) []string {
	var all []string
	for name := range c.nodes {
		if name != but {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// TestEmbeddedTakeover kills and freezes nodes that lead the election and the etcd cluster at once.
func TestEmbeddedTakeover(t *testing.T) {
	t.Parallel()
	c := newEmbedded(t, "&state=new", "--lease-duration", "10m")
	c.start("a", "b", "c")

	t.Run("C07_a_killed_leader_is_replaced_long_before_its_lease_expires", func(t *testing.T) {
		first, epoch := c.together()
		began := time.Now()
		c.kill(first)
		next, higher := c.leader()
		if next == first || higher <= epoch {
			t.Errorf("after %s in epoch %d, %s leads in epoch %d", first, epoch, next, higher)
		}
		t.Logf("%s led the election and the etcd cluster; %s leads after %v", first, next, time.Since(began))
		c.start(first)
		c.leader()
	})

	t.Run("a_frozen_etcd_leader_that_is_standby_costs_the_leader_nothing", func(t *testing.T) {
		first, _ := c.together()
		to := c.others(first)[0]
		c.handOff(first, to)
		_, epoch := c.leader()
		frozen := c.nodes[first]
		delete(c.nodes, first)

		frozen.signal(syscall.SIGSTOP)
		if next := c.etcdLeader(); next == first {
			t.Errorf("%s is frozen, and leads the etcd cluster", first)
		}
		if name, now := c.leader(); name != to || now != epoch {
			t.Errorf("%s leads in epoch %d, it was %s in epoch %d", name, now, to, epoch)
		}

		frozen.signal(syscall.SIGCONT)
		c.nodes[first] = frozen
		frozen.until("/standby", http.StatusOK)
	})

	t.Run("commands_are_clients_of_the_members", func(t *testing.T) {
		for _, args := range [][]string{{"status"}, {"members"}, {"elections"}, {"doctor"}, {"etcd", "members"}} {
			out := c.run(append(args, "--store", c.address("a"))...)
			if args[0] == "elections" && !strings.Contains(out, "coordinator") {
				t.Errorf("regent %v:\n%s", args, out)
			}
		}
		c.run("run", "other", "--store", c.address("a"), "--", "true")
	})

	t.Run("a_restarted_node_warns_of_state_new_and_of_nothing_else", func(t *testing.T) {
		name := c.others("")[0]
		if code := c.nodes[name].stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if lines := c.nodes[name].said("level=ERROR msg=\"etcd: setting up"); len(lines) > 0 {
			t.Errorf("on its way out it says %q", lines)
		}
		c.start(name)
		c.nodes[name].await("state=new is for the first start alone")
		c.leader()
	})
}

// TestEmbeddedMajority kills two of three nodes, and starts them again.
func TestEmbeddedMajority(t *testing.T) {
	t.Parallel()
	c := newEmbedded(t, "&state=new")
	c.start("a", "b", "c")
	last, epoch := c.leader()
	for _, name := range c.others(last) {
		c.kill(name)
	}

	d := c.nodes[last]
	d.until("/leader", http.StatusServiceUnavailable)
	d.until("/readyz", http.StatusServiceUnavailable)
	const why = "has no leader, which takes a majority of its members"
	waitFor(t, "readyz says why", func() bool {
		_, body := d.get("/readyz")
		return strings.Contains(fmt.Sprint(body), why)
	})
	for _, args := range [][]string{{"why"}, {"status"}} {
		_, out := ends(t, c.command(append(args, "--addr", d.url)...))
		if !strings.Contains(strings.Join(strings.Fields(out), " "), why) {
			t.Errorf("regent %s:\n%s", args[0], out)
		}
	}
	if states := c.members(); states[last] != "no leader" {
		t.Errorf("the members are %v", states)
	}
	if code, out := ends(t, c.command("etcd", "remove", "x", "--store", c.address("a"))); code != exitFailure ||
		!strings.Contains(out, "the members are a, b, c") {
		t.Errorf("exit code %d\n%s", code, out)
	}

	for _, name := range []string{"a", "b", "c"} {
		if c.nodes[name] == nil {
			c.start(name)
		}
	}
	if _, next := c.leader(); next <= epoch {
		t.Errorf("epoch %d after epoch %d", next, epoch)
	}
}

// TestEmbeddedFrozen freezes the node that leads the election and the etcd cluster: its reaper kills it.
func TestEmbeddedFrozen(t *testing.T) {
	t.Parallel()
	c := newEmbedded(t, "&state=new")
	c.start("a", "b", "c")
	first, epoch := c.together()
	frozen := c.nodes[first]
	delete(c.nodes, first)

	began := time.Now()
	frozen.signal(syscall.SIGSTOP)
	next, higher := c.leader()
	if higher <= epoch {
		t.Errorf("epoch %d after epoch %d", higher, epoch)
	}
	t.Logf("%s leads after %v", next, time.Since(began))
	<-frozen.gone
}
