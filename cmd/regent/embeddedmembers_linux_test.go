package main

import (
	"encoding/json"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestEmbeddedMembers removes and adds members, with TLS between them. One comes back without its data.
func TestEmbeddedMembers(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for _, name := range []string{"a", "b", "c"} {
		ca.issue(name)
	}
	c := newEmbedded(t, "&state=new&ca="+ca.file("ca.crt"), "--lease-duration", "10m")
	c.more = func(name string) string { return "&cert=" + ca.file(name+".crt") + "&key=" + ca.file(name+".key") }
	c.start("a", "b", "c")
	c.leader()

	t.Run("a_process_without_a_certificate_of_the_authority_gets_nothing", func(t *testing.T) {
		other := newAuthority(t)
		other.issue("x")
		plain := "etcd+embedded:" + c.data("a") + strings.Replace(c.query, "&ca="+ca.file("ca.crt"), "", 1)
		for way, address := range map[string]string{
			"none": plain,
			"another's": plain + "&ca=" + ca.file("ca.crt") + "&cert=" + other.file("x.crt") + "&key=" +
				other.file("x.key"),
		} {
			for _, args := range [][]string{{"status"}, {"etcd", "members"}} {
				code, out := ends(t, c.command(append(args, "--timeout", "3s", "--store", address)...))
				if code != exitUnreachable {
					t.Errorf("with the certificate %s regent %v: exit code %d\n%s", way, args, code, out)
				}
			}
		}
	})

	t.Run("a_member_that_comes_back_empty_does_not_join_until_it_is_removed_and_added", func(t *testing.T) {
		first, epoch := c.leader()
		lost := c.others(first)[0]
		c.nodes[lost].stop()
		if err := os.RemoveAll(c.data(lost)); err != nil {
			t.Fatal(err)
		}

		c.start(lost)
		c.nodes[lost].await("it has lost its data, and must not vote as if it had it")
		c.nodes[lost].until("/readyz", http.StatusServiceUnavailable)
		out, _ := c.command("why", "--addr", c.nodes[lost].url).Output()
		if !strings.Contains(strings.Join(strings.Fields(string(out)), " "), "regent etcd remove "+lost) {
			t.Errorf("regent why does not say what to do:\n%s", out)
		}

		c.run("etcd", "remove", lost, "--store", c.address(first))
		c.run("etcd", "add", lost, "--store", c.address(first))
		c.nodes[lost].until("/standby", http.StatusOK)
		if state := c.members()[lost]; state != "follower" {
			t.Errorf("%s is %s", lost, state)
		}
		if name, now := c.leader(); name != first || now != epoch {
			t.Errorf("%s leads in epoch %d, it was %s in epoch %d", name, now, first, epoch)
		}
	})

	t.Run("a_removed_member_ends_and_says_so", func(t *testing.T) {
		first, _ := c.leader()
		gone := c.others(first)[0]
		d := c.nodes[gone]
		waitFor(t, "etcd takes a member that has just joined for a healthy one", func() bool {
			code, out := ends(t, c.command("etcd", "remove", gone, "--store", c.address(first)))
			return code == 0 || !strings.Contains(out, "A member counts a few seconds after it has started")
		})
		<-d.gone
		if code := d.cmd.ProcessState.ExitCode(); code != exitConfig ||
			len(d.said("this member was removed from the cluster")) == 0 {
			t.Errorf("exit code %d", code)
		}
		delete(c.nodes, gone)
		if name, _ := c.leader(); name != first {
			t.Errorf("%s leads", name)
		}

		// Its directory is still there, and of no use.
		if code, out := ends(t, c.command(c.serve(gone)...)); code != exitConfig ||
			!strings.Contains(out, "this member was removed from the cluster") {
			t.Errorf("started again: exit code %d\n%s", code, out)
		}
	})
}

// TestEmbeddedRestore rolls a store back to a snapshot, under nodes whose workers have seen later epochs.
func TestEmbeddedRestore(t *testing.T) {
	t.Parallel()
	c := newEmbedded(t, "")
	config := writeFile(t, filepath.Join(t.TempDir(), "regent.yaml"), everySecond(1, webTarget(t)))
	c.args = []string{"--config", config}
	c.more = func(string) string { return "&state=new" }
	c.start("a", "b", "c")
	first, saved := c.leader()
	file := filepath.Join(t.TempDir(), "regent.snapshot")
	c.run("etcd", "snapshot", file, "--store", c.address("a"))
	if code, out := ends(t, c.command("etcd", "snapshot", file, "--store", c.address("a"))); code != exitFailure ||
		!strings.Contains(out, "must not be there yet") {
		t.Errorf("over a file: exit code %d\n%s", code, out)
	}

	c.kill(first)
	c.leader()
	c.start(first)
	c.handOff(func() (string, string) { name, _ := c.leader(); return name, first }())
	_, last := c.leader()
	c.polled(last)
	for name := range c.nodes {
		c.nodes[name].stop()
	}

	c.more = nil
	for _, name := range []string{"a", "b", "c"} {
		restore := []string{"etcd", "restore", file, "--node", name, "--store", c.address(name)}
		if code, out := ends(t, c.command(restore...)); code != exitConfig || !strings.Contains(out, "must be empty") {
			t.Errorf("over data: exit code %d\n%s", code, out)
		}
		if err := os.RemoveAll(c.data(name)); err != nil {
			t.Fatal(err)
		}
		if code, out := ends(t, c.command(append(restore, "--raise-epochs", "1000001")...)); code != exitUsage ||
			!strings.Contains(out, "--raise-epochs 1000001: must be at most 1000000") {
			t.Errorf("exit code %d\n%s", code, out)
		}
		c.run(restore...)
	}
	c.start("a", "b", "c")

	// The store has forgotten the last epochs, but the fences of the workers have not. They accept the tasks of the
	// first leader, whose claim is beyond what was forgotten.
	c.leader()
	now := uint64(math.MaxUint64)
	for _, n := range c.nodes {
		if epochs, _ := n.terms("became leader"); len(epochs) > 0 {
			now = min(now, epochs[0])
		}
	}
	if now != saved+defaultRaise+1 || now <= last {
		t.Errorf("the first leader is in epoch %d; %d is in the snapshot, %d was before the loss", now, saved, last)
	}
	c.polled(now)
	for name, n := range c.nodes {
		if lines := n.said("store:regressed|step_down|stale"); len(lines) > 0 {
			t.Errorf("%s says %q", name, lines)
		}
	}
	t.Logf("saved in epoch %d, rolled back from epoch %d: the next leader is in epoch %d", saved, last, now)
}

// polled runs a poll in an epoch, or a later one: the fence of a worker accepts the task.
func (c *embeddedCluster) polled(epoch uint64) {
	c.t.Helper()
	name, _ := c.leader()
	var ran struct {
		Epoch   uint64
		Outcome string
	}
	out := c.run("polls", "run", "p0", "-o", "json", "--addr", c.nodes[name].url)
	if err := json.Unmarshal([]byte(out), &ran); err != nil || ran.Epoch < epoch || ran.Outcome != "ok" {
		c.t.Errorf("a poll in epoch %d: %v\n%s", epoch, err, out)
	}
}

// TestEmbeddedRestoreDiffers restores members of one cluster with different numbers of epochs: they do not form one.
func TestEmbeddedRestoreDiffers(t *testing.T) {
	t.Parallel()
	c := newEmbedded(t, "&state=new")
	c.start("a", "b", "c")
	c.leader()
	file := filepath.Join(t.TempDir(), "regent.snapshot")
	c.run("etcd", "snapshot", file, "--store", c.address("a"))
	for i, name := range []string{"a", "b", "c"} {
		c.kill(name)
		if err := os.RemoveAll(c.data(name)); err != nil {
			t.Fatal(err)
		}
		c.run("etcd", "restore", file, "--node", name, "--store", c.address(name), "--raise-epochs", strconv.Itoa(i))
	}

	c.start("a", "b", "c")
	for name, n := range c.nodes {
		n.await("etcd: .*cluster ID mismatch")
		if code, _ := n.get("/leader"); code == http.StatusOK {
			t.Errorf("%s leads", name)
		}
	}
}

// TestEmbeddedRefused starts nodes with addresses that cannot be right.
func TestEmbeddedRefused(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"etcd+embedded:":   `directory "": directory must be given`,
		"etcd+embedded:/x": `peers "": peers must be NAME=HOST`,
		"etcd+embedded:/x?peers=a=127.0.0.1&color=red":       `color "red": color is not known`,
		"etcd+embedded:/x?peers=a=10.0.0.1":                  "since other hosts can reach 10.0.0.1:2380",
		"etcd+embedded:/x?peers=a=127.0.0.1&state=old":       `state "old": state must be new`,
		"etcd+embedded:/x?peers=a=127.0.0.1&ca=/no/such.pem": "ca, cert, key must be given all or not at all",
	} {
		for way, args := range everyStart(t, address) {
			code, out := ends(t, commandOf(t, embeddedBinary, nil, args...))
			if code != exitConfig || !strings.Contains(out, want) {
				t.Errorf("%s %s: exit code %d, want %q\n%s", way, address, code, want, out)
			}
		}
	}

	t.Run("a_node_that_peers_does_not_name", func(t *testing.T) {
		for _, args := range [][]string{
			serveArgs(t, "z", "etcd+embedded:/x?peers=a=127.0.0.1"),
			serveArgs(t, "z", "etcd+embedded:/x?peers=a=127.0.0.1", "--check-config"),
		} {
			code, out := ends(t, commandOf(t, embeddedBinary, nil, args...))
			if code != exitConfig || !strings.Contains(out, `peers must name this node too, which is "z"`) {
				t.Errorf("exit code %d\n%s", code, out)
			}
		}
	})

	t.Run("a_build_without_it_says_which_has_it", func(t *testing.T) {
		for way, args := range everyStart(t, "etcd+embedded:/x?peers=a=127.0.0.1") {
			if code, out := ends(t, command(t, nil, args...)); code != exitConfig ||
				!strings.Contains(out, "go build -tags embedded") {
				t.Errorf("%s: exit code %d\n%s", way, code, out)
			}
		}
		code, out := ends(t, command(t, nil, "etcd", "members", "--store", "etcd://127.0.0.1:1"))
		if code != exitConfig || !strings.Contains(out, "go build -tags embedded") {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})
}
