package main

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// redisServer is a real redis-server on a free port of the loopback.
type redisServer struct {
	t    *testing.T
	port string
	dir  string
	sync string // when it syncs its log to the disk
	cmd  *exec.Cmd
}

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	r := newRedis(t)
	r.start()
	return r
}

// newRedis returns a server that does not run yet.
func newRedis(t *testing.T) *redisServer {
	t.Helper()
	_, port, err := net.SplitHostPort(freePort())
	if err != nil {
		t.Fatal(err)
	}

	r := &redisServer{t: t, port: port, dir: inMemory(t), sync: "always"}
	t.Cleanup(func() {
		if r.cmd != nil {
			_ = r.cmd.Process.Kill()
			_ = r.cmd.Wait()
		}
	})

	return r
}

func (r *redisServer) start() {
	r.t.Helper()
	r.cmd = exec.Command("redis-server", "--port", r.port, "--bind", "127.0.0.1", "--dir", r.dir, "--appendonly", "yes",
		"--appendfsync", r.sync, "--save", "")
	if err := r.cmd.Start(); err != nil {
		r.t.Fatalf("%v: 'make test' installs redis-server", err)
	}

	// A server of somebody else on the same port would answer too.
	for limit := time.Now().Add(time.Minute); !strings.HasSuffix(r.cli("CONFIG", "GET", "dir"), r.dir); {
		if time.Now().After(limit) {
			r.t.Fatalf("redis-server does not answer on port %s: %s", r.port, r.cli("CONFIG", "GET", "dir"))
		}
	}
}

func (r *redisServer) cli(args ...string) string {
	out, _ := exec.Command("redis-cli", append([]string{"-p", r.port}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out))
}

func (r *redisServer) address() string { return "redis://127.0.0.1:" + r.port }
