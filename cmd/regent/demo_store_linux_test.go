package main

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/internal/etcdtest"
)

// TestDemoBesideARealNode runs the demo on a Redis on which a real node leads the election that the demo's nodes lead
// too. The node is not disturbed, and the demo leaves nothing behind.
func TestDemoBesideARealNode(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	keys := func() []string {
		all := strings.Fields(r.cli("KEYS", "*"))
		slices.Sort(all)
		return all
	}

	real := start(t, "prod-1", r.address(), nil)
	real.until("/leader", http.StatusOK)
	before := keys()

	undisturbed := func(t *testing.T) {
		t.Helper()
		if after := keys(); !slices.Equal(after, before) {
			t.Errorf("the keys were\n%v\nand are\n%v", before, after)
		}
		if code, _ := real.get("/leader"); code != http.StatusOK {
			t.Errorf("/leader answers %d", code)
		}
		if terms := real.said(`msg="(became leader|lost leadership)"`); len(terms) != 1 {
			t.Errorf("the node has not led one term:\n%s", strings.Join(terms, "\n"))
		}
		_, out := ends(t, command(t, nil, "members", "--store", r.address()))
		if strings.Contains(out, "node-") || strings.Contains(out, "worker-") {
			t.Errorf("members of the demo:\n%s", out)
		}
	}

	t.Run("the_tour_ends_by_itself", func(t *testing.T) {
		cmd := command(t, nil, "demo", "--store", r.address())
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stuck := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
		defer stuck.Stop()

		if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "each with an epoch of its own") ||
			!strings.Contains(out.String(), "is cut off from the store") {
			t.Errorf("%v\n%s", err, out.String())
		}
		leavesNothing(t, cmd.Process.Pid)
		undisturbed(t)
	})

	t.Run("a_signal_ends_it_during_the_tour", func(t *testing.T) {
		// A leader is frozen then, and holds its registers.
		text := demoUntil(t, nil, "kill -STOP node-", "demo", "--store", r.address()+"?prefix=app:")
		if !strings.Contains(text, "in prefix app:regent-demo-") {
			t.Errorf("it does not say where its registers are:\n%s", text)
		}
		undisturbed(t)
	})
}

// readUntil reads until a text has come, and returns what was read.
func readUntil(t *testing.T, from io.Reader, text string) string {
	t.Helper()
	var read strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(read.String(), text) {
		n, err := from.Read(buf)
		read.Write(buf[:n])
		if err != nil {
			t.Fatalf("it ended before it showed %q: %v\n%s", text, err, read.String())
		}
	}
	return read.String()
}

// TestDemoLeavesNoRegister runs the demo on a PostgreSQL and an etcd that nobody else uses.
func TestDemoLeavesNoRegister(t *testing.T) {
	t.Parallel()
	demo := func(t *testing.T, address, want string) {
		t.Helper()
		if out := demoUntil(t, nil, "leads, epoch 1", "demo", "--store", address); !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}

	t.Run("postgres", func(t *testing.T) {
		srv := startPostgres(t)
		psql(t, srv, "CREATE SCHEMA app")
		demo(t, srv.URL("table=app.leaders"), "in table app.regent_demo_")
		out, err := srv.Command("psql", "-tAc", "SELECT schemaname || '.' || tablename FROM pg_tables WHERE tablename "+
			"LIKE 'regent%' OR schemaname = 'app'", srv.URL()).Output()
		if err != nil || strings.TrimSpace(string(out)) != "" {
			t.Errorf("it has left the table %s, %v", out, err)
		}
	})

	t.Run("etcd", func(t *testing.T) {
		all := startEtcd(t, 1)
		demo(t, etcdtest.Address(all, "/app"), "in prefix /app-demo-")
		answer, err := http.Post(all[0].URL()+"/v3/kv/range", "application/json", // every key
			strings.NewReader(`{"key":"AA==","range_end":"AA==","keys_only":true}`))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK || strings.Contains(string(text), `"kvs"`) {
			t.Errorf("it has left %s, %v", text, err)
		}
	})
}

// TestDemoWithoutAStore starts the demo on stores that do not answer, refuse it, or cannot be kept apart.
func TestDemoWithoutAStore(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	r.cli("ACL", "SETUSER", "node", "on", ">s3cret", "~app:*", "&*", "+@all")
	hung := startRedis(t)
	if err := hung.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	at := "127.0.0.1:" + r.port
	for _, c := range []struct {
		store string
		code  int
		want  []string
	}{
		{"redis://u:s3cret@127.0.0.1:1", 69, []string{"127.0.0.1:1", "connection refused"}},
		{"postgres://u:s3cret@127.0.0.1:1/d", 69, []string{"127.0.0.1:1/d", "connection refused"}},
		{"postgres://u:s3cret@" + silent.Addr().String() + "/d", 69, []string{silent.Addr().String(), "deadline"}},
		{"redis://:s3cret@127.0.0.1:" + hung.port, 69, []string{"127.0.0.1:" + hung.port}},
		{"redis://node:s3cret-wrong@" + at, exitConfig, []string{at, "WRONGPASS"}},
		{"redis://node:s3cret@" + at, exitConfig, []string{at, "NOPERM"}},
		{"s3://bucket:1/x", exitConfig, []string{"s3://bucket:1/x", "cannot keep its registers apart"}},
		{"nats://u:s3cret@" + at, exitConfig, []string{"nats://***@" + at, "cannot keep its registers apart"}},
		{"sqlite:regent.db", exitConfig, []string{"sqlite:regent.db", "the address of one server"}},
	} {
		code, out := ends(t, command(t, nil, "demo", "--for", "1s", "--store", c.store))
		missing := slices.ContainsFunc(c.want, func(text string) bool { return !strings.Contains(out, text) })
		if code != c.code || missing || strings.Contains(out, "s3cret") || strings.Contains(out, "Three nodes") {
			t.Errorf("%s: exit code %d, want %d and %q in\n%s", c.store, code, c.code, c.want, out)
		}
	}
	if left := r.cli("KEYS", "*"); left != "" {
		t.Errorf("a demo that was refused has left %s", left)
	}
}
