package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/regentd/regent/internal/pgtest"
)

// machineChecks matches the checks of 'regent doctor' that depend on the machine, with the lines that go on.
var machineChecks = regexp.MustCompile(
	`(?m)^(ok|warning|wrong|skipped) +(clock|open files|reaper|process trees|node) .*\n( {10,}.*\n)*`)

// goldenDoctor runs 'regent doctor' on a store, and compares what does not depend on the machine with a file.
func goldenDoctor(t *testing.T, name, store string, args ...string) {
	t.Helper()
	c := &goldenCluster{t: t, store: "sqlite:/nowhere/regent.db", nodes: map[string]*daemon{},
		env: []string{"REGENT_ADDR=127.0.0.1:1"}} // no node
	c.more = func(text string) string {
		text = strings.ReplaceAll(text, store, "STORE")
		for _, m := range []struct{ pattern, by string }{
			{`127\.0\.0\.1:\d+`, "ADDR"}, {`/[\w./-]*regent-(test|postgres)[\w./-]*`, "PATH"}, {`port=\d+`, "port=N"},
			{`\d+:\d+ \(`, "N ("},
		} {
			text = regexp.MustCompile(m.pattern).ReplaceAllString(text, m.by)
		}
		return join(machineChecks.ReplaceAllString(text, ""))
	}
	c.golden("doctor-"+name, append([]string{"doctor", "--store", store}, args...)...)
}

// join takes back the breaks of lines: where they are depends on what was masked.
func join(text string) string { return regexp.MustCompile(`\n {10,}`).ReplaceAllString(text, " ") }

// TestGoldenDoctor runs 'regent doctor' on real servers that are fine, and on some that are not.
func TestGoldenDoctor(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		store := sqliteStore(t)
		start(t, "node-a", store, nil).until("/leader", 200)
		goldenDoctor(t, "sqlite", store)
	})

	t.Run("redis", func(t *testing.T) {
		r := startRedis(t)
		goldenDoctor(t, "redis", r.address())
		r.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		goldenDoctor(t, "redis-evicts", r.address())
	})

	t.Run("s3", func(t *testing.T) {
		s := startS3(t)
		for _, pair := range s3Env("doctor") {
			name, value, _ := strings.Cut(pair, "=")
			t.Setenv(name, value)
		}
		goldenDoctor(t, "s3", s3Address(s.at, "doctor/"), "--members", "50")
		goldenDoctor(t, "s3-members", s3Address(s.at, "doctor/"), "--members", "0")
	})
}

// TestGoldenDoctorPostgres runs 'regent doctor' on a real PostgreSQL: directly, through a pooler that drops LISTEN, as
// a user who may do too little, and while it accepts no writes.
func TestGoldenDoctorPostgres(t *testing.T) {
	srv := startPostgres(t, "fsync=on")
	goldenDoctor(t, "postgres-unused", srv.URL())
	if code, out := ends(t, command(t, nil, "run", "jobs", "--store", srv.URL(), "--", "true")); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	goldenDoctor(t, "postgres", srv.URL())
	psql(t, srv, "CREATE ROLE reader LOGIN; GRANT SELECT ON regent_register TO reader;"+
		"ALTER ROLE postgres SET synchronous_commit = off")
	goldenDoctor(t, "postgres-pooler", pooled(t, srv))
	goldenDoctor(t, "postgres-reader", strings.Replace(srv.URL(), "postgres@", "reader@", 1))

	psql(t, srv, "ALTER SYSTEM SET default_transaction_read_only = on; SELECT pg_reload_conf()")
	waitFor(t, "the server accepts no writes", func() bool {
		out, _ := srv.Command("psql", "-tAc", "SHOW default_transaction_read_only", srv.URL()).Output()
		return strings.TrimSpace(string(out)) == "on"
	})
	goldenDoctor(t, "postgres-read-only", srv.URL())
}

func psql(t *testing.T, srv *pgtest.Server, statements string) {
	t.Helper()
	for s := range strings.SplitSeq(statements, ";") {
		if out, err := srv.Command("psql", "-v", "ON_ERROR_STOP=1", "-qc", s, srv.URL()).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", s, err, out)
		}
	}
}

// pooled starts PgBouncer in transaction mode before a server, and returns the address of the store through it.
func pooled(t *testing.T, srv *pgtest.Server) string {
	t.Helper()
	const pooler = "/usr/sbin/pgbouncer"
	if _, err := os.Stat(pooler); err != nil {
		t.Fatalf("%v: 'make need' installs it", err)
	}

	address := freePort()
	_, port, _ := net.SplitHostPort(address)
	dir, err := pgtest.Dir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\npostgres = user=postgres host=127.0.0.1 port=%d\n[pgbouncer]\n"+
		"listen_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n"+
		"ignore_startup_parameters = lock_timeout,default_transaction_isolation,search_path,extra_float_digits\n",
		srv.Port, port)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	cmd := srv.Command(pooler, config)
	launch(t, "pgbouncer", cmd, nil)
	through := strings.Replace(srv.URL("default_query_exec_mode=exec"), ":"+strconv.Itoa(srv.Port), ":"+port, 1)
	waitFor(t, "PgBouncer serves", func() bool {
		return srv.Command("psql", "-c", "SELECT 1", strings.Replace(srv.URL(), ":"+strconv.Itoa(srv.Port), ":"+port,
			1)).Run() == nil
	})
	return through
}
