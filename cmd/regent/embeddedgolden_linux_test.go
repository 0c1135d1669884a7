package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// embeddedMasks replace what differs from run to run in what 'regent etcd' prints.
var embeddedMasks = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "HOST"},
	{regexp.MustCompile(`\b[0-9a-f]{14,16}\b`), "ID"},
	{regexp.MustCompile(`\b(leader|follower)\b`), "STATE"},
	{regexp.MustCompile(`\d+ kB`), "N kB"},
	{regexp.MustCompile(`\d+ bytes`), "N bytes"},
	{regexp.MustCompile(`("?bytes"?): \d+`), `$1: N`},
	{regexp.MustCompile(`("?version"?): "?\d[\d.]+"?`), `$1: VERSION`},
	{regexp.MustCompile(`rpc error: .*`), "RPC ERROR"},
}

// newEmbeddedGolden starts three nodes with a member each, and returns the commands that ask them.
func newEmbeddedGolden(t *testing.T) (*embeddedCluster, *goldenCluster) {
	t.Helper()
	c := newEmbedded(t, "", "--lease-duration", "10m")
	state := "&state=new"
	c.more = func(string) string { return state }
	c.start("a", "b", "c")
	c.leader()
	state = ""

	g := &goldenCluster{t: t, store: "sqlite:/none-of-these/x", built: embeddedBinary}
	g.more = func(text string) string {
		text = strings.ReplaceAll(text, c.dir, "DIR")
		text = strings.ReplaceAll(text, c.query, "?peers=…")
		for _, m := range embeddedMasks {
			text = m.pattern.ReplaceAllString(text, m.by)
		}
		return text
	}
	return c, g
}

// TestEmbeddedGolden compares what 'regent etcd' prints with files, over real members.
func TestEmbeddedGolden(t *testing.T) {
	t.Parallel()
	c, g := newEmbeddedGolden(t)
	at := []string{"--store", c.address("a")}
	golden := func(name string, args ...string) {
		t.Helper()
		g.golden("etcd-"+name, append(append([]string{"etcd"}, args...), at...)...)
	}
	file := func(name string) string { return filepath.Join(c.dir, name) }

	golden("members", "members")
	golden("members-json", "members", "-o", "json")
	golden("members-argument", "members", "x")
	golden("snapshot", "snapshot", file("one"))
	golden("snapshot-again", "snapshot", file("one"))
	golden("snapshot-json", "snapshot", file("two"), "-o", "json")
	golden("snapshot-nowhere", "snapshot", file("no/such/file"))
	golden("add-known", "add", "c")
	golden("add-unnamed", "add", "x")
	golden("add-nothing", "add")
	golden("remove-unknown", "remove", "x")

	c.nodes["c"].signal(syscall.SIGTERM)
	<-c.nodes["c"].gone
	golden("members-away", "members")
	golden("remove", "remove", "c")
	golden("members-removed", "members", "-o", "yaml")
	golden("add", "add", "c", "-o", "json")
	golden("members-added", "members")

	restored := func(name string) []string {
		return []string{"--node", name, "--store", "etcd+embedded:" + file("restored-"+name) + c.query}
	}
	at = restored("a")
	golden("restore", "restore", file("one"))
	golden("restore-again", "restore", file("one"))
	at = restored("b")
	golden("restore-json", "restore", file("one"), "-o", "json", "--raise-epochs", "7")
	at = restored("c")
	golden("restore-missing", "restore", file("none"))
	golden("restore-too-far", "restore", file("one"), "--raise-epochs", "1000001")
	for _, size := range []int64{20_000, 10_001} { // with another checksum at the end, and without one
		if err := os.Truncate(file("two"), size); err != nil {
			t.Fatal(err)
		}
		golden("restore-damaged", "restore", file("two"))
	}
	at = restored("x")
	golden("restore-stranger", "restore", file("one"))
	at = []string{"--store", "etcd://" + freePort()}
	golden("members-of-etcd", "members")
	at = []string{"--timeout", "2s", "--store", "etcd+embedded:/x?peers=a=" + freePort() + "&clients=a=" + freePort()}
	golden("members-unreachable", "members")
}
