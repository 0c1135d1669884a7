package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nobody is the user that these tests run a node as, if they run as root.
const nobody = 65534

// TestUnwritableFile starts a node on a database that its user may read and not write.
func TestUnwritableFile(t *testing.T) {
	dir, err := os.MkdirTemp("", "regent-unwritable-") // unlike t.TempDir it is open to other users
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		_ = os.Chmod(dir, 0o700)
		_ = os.RemoveAll(dir)
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	db := filepath.Join(dir, "regent.db")
	owner := start(t, "owner", "sqlite:"+db, nil)
	owner.until("/leader", http.StatusOK)

	for _, suffix := range []string{"", "-wal", "-shm", "-wake"} {
		if err := os.Chmod(db+suffix, 0o444); err != nil {
			t.Fatal(err)
		}
	}

	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(bin), 0o755); err != nil {
		t.Fatal(err)
	}

	refusesNobody := func(store, words string) {
		for way, args := range everyStart(t, "sqlite:"+store, "--worker=false") {
			cmd := command(t, nil, args...)
			cmd.Dir = dir

			if os.Getuid() == 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			}
			code, out := ends(t, cmd)
			if code != exitConfig || !strings.Contains(out, words) {
				t.Errorf("%s: exit code %d, want 78 and %q in\n%s", way, code, words, out)
			}
		}
	}
	refusesNobody(db, "this user must be able to write "+db)
	if os.Getuid() == 0 { // who owns the directory
		refusesNobody(filepath.Join(dir, "other.db"), "this user must be able to write ")
	}

	if code, _ := owner.get("/leader"); code != http.StatusOK {
		t.Errorf("the owner's node answers %d", code)
	}
}

// refusesAtOnce waits until a node is not ready, and checks that the words of the store are in log and status. It must
// not take as long as it would with a silent store, whose last answer counts for three heartbeats and 2 s.
func refusesAtOnce(t *testing.T, d *daemon, heartbeat time.Duration, words string) {
	t.Helper()
	body := d.until("/readyz", http.StatusServiceUnavailable)
	store, _ := body["store"].(map[string]any)
	checks, _ := body["checks"].(map[string]any)

	if ms, _ := store["answeredMs"].(float64); time.Duration(ms)*time.Millisecond > 3*heartbeat+2*time.Second {
		t.Errorf("it took the silence of %v ms", ms)
	}
	said, _ := checks["writes"].(string)

	also, _ := checks["store"].(string)
	if !strings.Contains(said+also, words) {
		t.Errorf("the checks are %v", checks)
	}

	d.await(`level=ERROR msg="store fails" requests=\w+ error=.*` + words)
}

func TestStoreTurnsAway(t *testing.T) {
	const heartbeat = 4 * time.Second
	slow := []string{"--heartbeat-interval", heartbeat.String(), "--lease-duration", "60s"}

	t.Run("a_file_that_was_moved_away", func(t *testing.T) {
		db := filepath.Join(inMemory(t), "regent.db")
		a := start(t, "a", "sqlite:"+db, nil, slow...)
		a.until("/leader", http.StatusOK)

		if err := os.Rename(db, db+".gone"); err != nil {
			t.Fatal(err)
		}
		refusesAtOnce(t, a, heartbeat, "was removed or replaced while open")
	})

	t.Run("permissions_that_were_revoked", func(t *testing.T) {
		r := startRedis(t)
		r.cli("ACL", "SETUSER", "node", "on", ">right", "~*", "&*", "+@all")
		a := start(t, "a", "redis://node:right@127.0.0.1:"+r.port, nil, slow...)
		a.until("/readyz", http.StatusOK)
		r.cli("ACL", "SETUSER", "node", "-evalsha", "-eval")
		refusesAtOnce(t, a, heartbeat, "NOPERM")

		r.cli("ACL", "SETUSER", "node", "+@all")
		a.until("/readyz", http.StatusOK)
		a.await(`level=INFO msg="store works again"`)
	})

	t.Run("a_password_that_was_changed", func(t *testing.T) {
		r := startRedis(t)
		r.cli("ACL", "SETUSER", "node", "on", ">right", "~*", "&*", "+@all")
		a := start(t, "a", "redis://node:right@127.0.0.1:"+r.port, nil, slow...)
		a.until("/readyz", http.StatusOK)
		r.cli("ACL", "SETUSER", "node", "resetpass", ">other")
		r.cli("CLIENT", "KILL", "USER", "node")
		refusesAtOnce(t, a, heartbeat, "WRONGPASS")
	})
}

// TestWritesAlone uses a server that is full: it answers every read, and refuses every write.
func TestWritesAlone(t *testing.T) {
	r := startRedis(t)
	quick := quickLease()
	a := start(t, "a", r.address(), nil, quick...)
	a.until("/leader", http.StatusOK)
	b := start(t, "b", r.address(), nil, quick...)
	b.until("/readyz", http.StatusOK)

	if status := b.until("/v1/status?local=1", http.StatusOK); status["leader"] != "a" {
		t.Fatalf("b names %v", status["leader"])
	}

	r.cli("CONFIG", "SET", "maxmemory", "1")

	a.await(`level=WARN msg="store fails" requests=writes error=.*OOM`)
	a.await("msg=\"lost leadership\"")

	for _, d := range []*daemon{a, b} {
		body := d.until("/readyz", http.StatusServiceUnavailable)
		store, _ := body["store"].(map[string]any)
		text, _ := store["writeError"].(string)
		if store["reachable"] != true || store["writable"] != false || !strings.Contains(text, "OOM") {
			t.Errorf("%s: %v", d.name, store)
		}

		read, _ := store["readMs"].(float64)
		written, _ := store["writtenMs"].(float64)
		if written <= read {
			t.Errorf("%s: the last write was %v ms ago, the last read %v ms", d.name, written, read)
		}
	}

	for _, args := range [][]string{{"pause", "--yes"}, {"resume"}} {
		says(t, exitFailure, []string{"refused: b cannot write to its store ", "OOM", "nothing was changed"},
			append(args, "--addr", b.url)...)
	}

	// Nobody can write that a does not lead any more. Still nobody may name it as the leader.
	named := func() (any, map[string]any) {
		status := b.until("/v1/status?local=1", http.StatusOK)
		checks, _ := status["checks"].(map[string]any)
		return status["leader"], checks
	}
	limit := time.Now().Add(60 * time.Second)

	leader, checks := named()
	for ; leader != "" && time.Now().Before(limit); leader, checks = named() {
		time.Sleep(20 * time.Millisecond) // the time between two polls
	}

	text, _ := checks["leader"].(string)
	if leader != "" || !strings.Contains(text, "a leads no more: its last heartbeat came") {
		t.Errorf("b names %v, and says %v", leader, checks)
	}

	r.cli("CONFIG", "SET", "maxmemory", "0")
	a.until("/readyz", http.StatusOK)
	b.until("/readyz", http.StatusOK)
	a.await(`level=INFO msg="store works again" requests=writes`)
}
