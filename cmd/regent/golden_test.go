package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// masks replace what differs from run to run. A masked table has two spaces between its columns.
var masks = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\(devel\)|\bv0\.0\.0-\d{14}-[0-9a-f]{12}(\+dirty)?`), "VERSION"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`\b\d+\.[A-Z2-7]{26}\b`), "ID"},
	{regexp.MustCompile(`("?\w+Ms"?): -?[\d.e+-]+`), "$1: N"},
	{regexp.MustCompile(`(vacant\w*|waited\w*)=[\d.e+-]+`), "$1=N"},
	{regexp.MustCompile(`\b\d+(\.\d+)? (ms|s)\b|\b\d+m\d\ds\b|\b\d+(\.\d+)?(µs|ms|s)\b`), "DUR"},
	{regexp.MustCompile(`health and last seen are as of the last check DUR ago\n|, as of the last check DUR ago`), ""},
	{regexp.MustCompile(`\b\d+ of \d+ ok\b`), "N of N ok"},
	{regexp.MustCompile(`/now-\d+`), "/now-N"},
	{regexp.MustCompile(`(on |"worker": "|DUR +)node-[ab](, epoch|",|  +\d)`), "${1}WORKER$2"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "},
}

// cluster is two real nodes, and the commands that ask them.
type goldenCluster struct {
	t     *testing.T
	store string
	nodes map[string]*daemon
	env   []string
	more  func(string) string    // masks more; nil for nothing
	built func() (string, error) // the command; nil for that of most tests
}

// mask replaces what differs from run to run in an output.
func (c *goldenCluster) mask(text string) string {
	for name, d := range c.nodes {
		text = strings.ReplaceAll(text, strings.TrimPrefix(d.url, "http://"), "ADDR-"+name)
	}
	text = strings.ReplaceAll(text, filepath.Dir(strings.TrimPrefix(c.store, "sqlite:")), "DIR")
	if c.more != nil {
		text = c.more(text)
	}
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.by)
	}

	var lines []string
	for line := range strings.Lines(text) {
		if len(lines) == 0 || lines[len(lines)-1] != line || !strings.Contains(line, "TIME") { // runs of a poll
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// run runs a command, and returns its output and exit code, masked.
func (c *goldenCluster) run(args ...string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 100*time.Second)
	defer cancel()

	built := c.built
	if built == nil {
		built = binary
	}
	cmd := commandOf(c.t, built, c.env, args...)
	var out, errs bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &errs
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()

	err := cmd.Run()
	if cmd.ProcessState == nil {
		c.t.Fatal(err)
	}

	shown := strings.Join(args, " ")
	said := progressLine.ReplaceAllString(errs.String(), "") // on a slow machine
	return c.mask(fmt.Sprintf("$ regent %s\n%s-- standard error\n%s-- exit code %d\n", shown, out.String(), said,
		cmd.ProcessState.ExitCode()))
}

var progressLine = regexp.MustCompile(`(?m)^(asking|opening|checking|handoff of|step-down of).* …\n`)

// golden runs a command and compares its output with a file. A command that only reads is run until the output is that
// of the file: what it shows comes in its own time.
func (c *goldenCluster) golden(name string, args ...string) {
	c.t.Helper()
	path := filepath.Join("testdata", "golden", name+".txt")
	changes := slices.ContainsFunc([]string{"handoff", "step-down", "pause", "resume"}, func(verb string) bool {
		return args[0] == verb
	}) || args[0] == "etcd" && args[1] != "members"
	if *update {
		if strings.Contains("status members store-status status-paused status-nobody etcd-members etcd-add", name) {
			<-time.After(6 * time.Second) // until everything that comes in its own time is there
		}
		if err := os.WriteFile(path, []byte(c.run(args...)), 0o644); err != nil {
			c.t.Fatal(err)
		}
		return
	}

	want, err := os.ReadFile(path)
	if err != nil {
		c.t.Fatal(err)
	}

	got := ""
	wait := 60 * time.Second
	if c.t.Failed() { // one failure is enough to wait for
		wait = 2 * time.Second
	}
	for limit := time.Now().Add(wait); time.Now().Before(limit); <-time.After(200 * time.Millisecond) {
		got = c.run(args...)
		if got == string(want) || changes && !strings.Contains(got, "A member counts a few seconds after") {
			break
		}
	}
	if got != string(want) {
		c.t.Errorf("%s: %s\ngot\n%s\nwant\n%s", path, firstDifference(got, string(want)), got, want)
	}
}

// newGolden starts two nodes, the first of which leads.
func newGolden(t *testing.T, args ...string) *goldenCluster {
	t.Helper()
	c := &goldenCluster{t: t, store: sqliteStore(t), nodes: map[string]*daemon{}}
	c.nodes["a"] = start(t, "node-a", c.store, nil, args...)
	c.nodes["a"].until("/leader", 200)
	c.nodes["b"] = start(t, "node-b", c.store, nil, args...)
	c.nodes["b"].until("/standby", 200)
	c.env = []string{"REGENT_ADDR=" + c.nodes["a"].url}
	seen(c.nodes["a"], "/v1/members", func(m struct {
		Members []struct {
			Status     string
			LastSeenMs int
		}
	}) bool {
		return len(m.Members) == 2 && m.Members[0].Status == "healthy" && m.Members[1].Status == "healthy" &&
			m.Members[0].LastSeenMs >= 0 && m.Members[1].LastSeenMs >= 0
	})

	return c
}

// TestGolden compares every output and exit code with files, over a cluster whose leader changes.
func TestGolden(t *testing.T) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()

	config := writeFile(t, filepath.Join(t.TempDir(), "regent.yaml"),
		"polls:\n  home: {kind: tcp, target: '"+target.Addr().String()+"', interval: 1s}\n")
	c := newGolden(t, "--config", config)
	c.nodes["target"] = &daemon{url: target.Addr().String()}
	seen(c.nodes["a"], "/v1/polls/home", func(p struct{ State string }) bool { return p.State == "up" })

	c.golden("status", "status")
	c.golden("status-json", "status", "-o", "json")
	c.golden("status-yaml", "status", "coordinator", "-o", "yaml")
	c.golden("elections", "elections")
	c.golden("elections-json", "elections", "-o", "json")
	c.golden("members", "members")
	c.golden("members-yaml", "members", "-o", "yaml")
	c.golden("history", "history")
	c.golden("why-leader", "why")
	c.golden("why-standby", "why", "node-b")
	c.golden("why-json", "why", "node-b", "-o", "json")
	c.golden("is-leader", "is-leader")
	c.golden("is-leader-standby", "is-leader", "--addr", c.nodes["b"].url, "-o", "json")
	c.golden("events", "events", "--kind", "coordinator:became", "--last", "1")
	c.golden("polls", "polls")
	c.golden("polls-one", "polls", "home")
	c.golden("polls-run", "polls", "run", "home")
	c.golden("polls-run-json", "polls", "run", "home", "-o", "json")
	c.golden("version", "version", "extra")

	t.Run("wrong", c.wrong)
	t.Run("store", c.fromStore)
	t.Run("steer", c.steer)
}

// wrong runs commands that end with an error.
func (c *goldenCluster) wrong(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.nodes["nowhere"] = &daemon{url: closed.Addr().String()}
	_ = closed.Close()
	nowhere := closed.Addr().String()

	c.t = t
	c.golden("wrong-election", "status", "coordinatr")
	c.golden("wrong-member", "why", "node-x")
	c.golden("wrong-poll", "polls", "hom")
	c.golden("wrong-poll-run", "polls", "run", "hom")
	c.golden("polls-run-without-name", "polls", "run")
	c.golden("wrong-flag", "status", "--wathc")
	c.golden("wrong-format", "members", "-o", "xml")
	c.golden("wrong-both", "status", "--addr", nowhere, "--store", c.store)
	c.golden("wrong-address", "status", "--addr", "nowhere")
	c.golden("wrong-interval", "watch", "--interval", "1ms")
	c.golden("unreachable", "status", "--addr", nowhere)
	c.golden("unreachable-handoff", "handoff", "--to", "node-b", "--yes", "--addr", nowhere)
	c.golden("unreachable-is-leader", "is-leader", "--addr", nowhere)
	c.golden("unreachable-store", "members", "--store", "sqlite:/no/such/dir/x.db")
	c.golden("missing-store", "elections", "--store", strings.TrimSuffix(c.store, "regent.db")+"other.db")
	c.golden("needs-node", "polls", "--store", c.store)
	c.golden("handoff-without-yes", "handoff", "--to", "node-b")
	c.golden("handoff-without-to", "handoff", "--yes")
	c.golden("completion-unknown", "completion", "bsh")
}

// fromStore asks the store itself.
func (c *goldenCluster) fromStore(t *testing.T) {
	c.t = t
	c.golden("store-status", "status", "--store", c.store)
	c.golden("store-members", "members", "--store", c.store)
	c.golden("store-history", "history", "--store", c.store)
	c.golden("store-why", "why", "node-b", "--store", c.store)
	c.golden("store-why-leader", "why", "--store", c.store)
	c.golden("store-is-leader", "is-leader", "node-a", "--store", c.store)
}

// steer makes the leader change.
func (c *goldenCluster) steer(t *testing.T) {
	c.t = t
	c.golden("handoff", "handoff", "--to", "node-b", "--wait", "--yes")
	c.golden("handoff-again", "handoff", "--to", "node-b", "--yes")
	c.golden("handoff-unknown", "handoff", "--to", "node-x", "--yes")
	c.golden("epoch-passed", "step-down", "--yes", "--epoch", "1")
	c.golden("step-down", "step-down", "--wait", "--yes", "-o", "json")
	c.golden("pause", "pause", "--yes")
	c.golden("status-paused", "status")
	c.golden("handoff-paused", "handoff", "--to", "node-b", "--yes")
	c.golden("step-down-paused-wait", "step-down", "--wait", "--yes")
	c.golden("step-down-paused", "step-down", "--yes")
	c.golden("status-nobody", "status")
	c.golden("why-paused", "why", "node-b")
	c.golden("resume-store", "resume", "--store", c.store)
	c.nodes["a"].until("/readyz", 200)
	waitFor(t, "somebody leads again", func() bool {
		a, _ := c.nodes["a"].get("/leader")
		b, _ := c.nodes["b"].get("/leader")
		return a == 200 || b == 200
	})
	c.golden("polls-none", "polls", "nosuch")
	c.golden("unknown-election", "pause", "nosuch", "--yes")
}
