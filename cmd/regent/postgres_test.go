package main

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/regentd/regent/internal/pgtest"
)

// startPostgres starts a PostgreSQL server for one test, with some settings.
func startPostgres(t *testing.T, settings ...string) *pgtest.Server {
	t.Helper()
	dir, err := pgtest.Dir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })

	s, err := pgtest.Start(dir, "own", settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	return s
}

// TestPostgres runs nodes on a real PostgreSQL server, with a lease that outlasts the test.
func TestPostgres(t *testing.T) {
	t.Parallel()
	srv := startPostgres(t)
	testNodesOn(t, srv.URL("table=app_leaders"), func() { _ = srv.Stop() }, func() error { return srv.Start() })
}

// testNodesOn kills leaders of nodes on a store, and restarts its server.
func testNodesOn(t *testing.T, address string, stop func(), restart func() error) {
	t.Helper()
	lease := []string{"--lease-duration", "10m"}

	nodes := map[string]*daemon{}
	for _, name := range []string{"a", "b", "c"} {
		nodes[name] = start(t, name, address, nil, lease...)
		nodes[name].serves()
	}

	leader := func() string {
		t.Helper()
		found := ""
		waitFor(t, "all nodes name one leader that leads", func() bool {
			found = ""
			for _, n := range nodes {
				_, health := n.get("/readyz")
				name, _ := health["leader"].(string)
				if name == "" || found != "" && name != found {
					return false
				}
				found = name
			}
			if nodes[found] == nil {
				return false
			}
			code, _ := nodes[found].get("/leader")
			return code == http.StatusOK
		})
		return found
	}

	t.Run("C07_a_killed_leader_is_replaced_long_before_its_lease_expires", func(t *testing.T) {
		for range 2 {
			first := leader()
			nodes[first].signal(syscall.SIGKILL)
			delete(nodes, first)
			if next := leader(); next == first {
				t.Errorf("%s leads on after SIGKILL", first)
			}
		}
	})

	t.Run("a_server_that_is_restarted_ends_no_node", func(t *testing.T) {
		stop()
		for _, n := range nodes {
			n.until("/readyz", http.StatusServiceUnavailable)
		}
		if err := restart(); err != nil {
			t.Fatal(err)
		}
		leader()
	})
}

// TestPostgresRefused starts nodes with addresses that cannot be right.
func TestPostgresRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ address, want string }{
		{"postgres://u:s3cret@127.0.0.1:1/d?table=Bad-Name", `table "Bad-Name": it must be a name`},
		{"postgres://u:s3cret@127.0.0.1:x/d", "invalid port"},
	} {
		for way, args := range everyStart(t, c.address) {
			code, out := ends(t, command(t, nil, args...))
			if code != exitConfig || !strings.Contains(out, c.want) || strings.Contains(out, "s3cret") {
				t.Errorf("%s: exit code %d\n%s", way, code, out)
			}
		}
	}
}

// TestPostgresReadersCreateNothing runs the commands that read or check a database which no node has used. They create
// no table, so that a node with another user creates it and owns it.
func TestPostgresReadersCreateNothing(t *testing.T) {
	t.Parallel()
	srv := startPostgres(t)
	psql(t, srv, "CREATE ROLE app LOGIN; GRANT CREATE ON SCHEMA public TO app; CREATE ROLE guest LOGIN")
	as := func(role string) string { return strings.Replace(srv.URL(), "postgres@", role+"@", 1) }
	tables := func() string {
		out, err := srv.Command("psql", "-tAc", "SELECT tableowner || '.' || tablename FROM pg_tables "+
			"WHERE schemaname = 'public'", srv.URL()).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}

	nobody := "--addr=127.0.0.1:1"
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"config", "check"}, 0, ""},
		{[]string{"status"}, 0, "no election"},
		{[]string{"elections"}, 0, ""},
		{[]string{"members"}, 0, ""},
		{[]string{"doctor", nobody}, 0, "start a node, which creates it, and check again"},
	} {
		code, out := ends(t, command(t, nil, append(c.args, "--store", srv.URL())...))
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit code %d, want %d and %q in\n%s", c.args, code, c.code, c.want, out)
		}
		if found := tables(); found != "" {
			t.Fatalf("%v has created %s", c.args, found)
		}
	}
	for _, args := range [][]string{{"is-leader", "x"}, {"history", "x"}, {"pause", "x", "--yes"}} {
		_, out := ends(t, command(t, nil, append(args, "--store", srv.URL())...))
		if found := tables(); found != "" {
			t.Fatalf("%v has created %s\n%s", args, found, out)
		}
	}

	code, out := ends(t, command(t, nil, "config", "check", "--store", as("guest")))
	if code != exitConfig || !strings.Contains(out, "run GRANT CREATE ON SCHEMA public TO guest") {
		t.Errorf("a user who may not create it: exit code %d\n%s", code, out)
	}

	start(t, "a", as("app"), nil).until("/leader", http.StatusOK)
	if found := tables(); found != "app.regent_register" {
		t.Errorf("after a node has started: %q", found)
	}
	code, out = ends(t, command(t, nil, "config", "check", "--store", as("guest")))
	if want := "let its owner, app, run: GRANT SELECT, INSERT, UPDATE, DELETE ON regent_register TO guest"; code !=
		exitConfig || !strings.Contains(out, want) {
		t.Errorf("a user without rights: exit code %d\n%s", code, out)
	}
}
