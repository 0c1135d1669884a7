package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// quickLease makes terms end soon after the store has failed.
func quickLease() []string {
	return []string{"--heartbeat-interval", "300ms", "--lease-duration", "2s", "--stop-timeout", "300ms",
		"--takeover-delay", "300ms", "--election-interval", "300ms"}
}

// says runs a command until its exit code and its output are as they should be.
func says(t *testing.T, code int, words []string, args ...string) {
	t.Helper()
	var got int
	var out string
	wait := 60 * time.Second
	if t.Failed() { // one failure is enough to wait for
		wait = time.Second
	}
	for limit := time.Now().Add(wait); time.Now().Before(limit); {
		got, out = ends(t, command(t, nil, args...))
		missing := ""
		for _, w := range words {
			if !strings.Contains(out, w) {
				missing = w
			}
		}
		if got == code && missing == "" {
			return
		}
	}
	t.Errorf("regent %s: exit code %d, want %d and %q in\n%s", strings.Join(args, " "), got, code, words, out)
}

// TestUnreadableStore asks a node that cannot read its store: it still knows much by itself.
func TestUnreadableStore(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(r *redisServer)
		why  string
	}{
		"refused": {func(r *redisServer) { _ = r.cmd.Process.Kill() }, "connection refused"},
		"hung": {func(r *redisServer) {
			_ = r.cmd.Process.Signal(syscall.SIGSTOP)
		}, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRedis(t)
			a := start(t, "a", r.address(), nil, quickLease()...)
			a.until("/leader", http.StatusOK)
			b := start(t, "b", r.address(), nil, quickLease()...)
			b.until("/standby", http.StatusOK)
			c.fail(r)
			b.until("/readyz", http.StatusServiceUnavailable)

			unread := "b cannot read its store " + r.address()
			says(t, exitUnreachable, []string{unread, c.why, "! b: store: ", "election coordinator",
				"no elections are known"}, "status", "--addr", b.url)
			says(t, exitUnreachable, []string{unread, `"elections": []`}, "status", "--addr", b.url, "-o", "json")
			says(t, 0, []string{"b does not lead election coordinator: ", "because it cannot reach the store"},
				"why", "--addr", b.url)
			for _, args := range [][]string{{"why", "a"}, {"history"}, {"members"}, {"elections"}, {"pause", "--yes"}} {
				says(t, exitUnreachable, []string{unread, "election coordinator", "'regent status' shows all"},
					append(args, "--addr", b.url)...)
			}
		})
	}
}

// TestFrozenNode asks a node that accepts connections and answers nothing.
func TestFrozenNode(t *testing.T) {
	a := start(t, "a", sqliteStore(t), nil)
	b := start(t, "b", "memory:", nil, "--eligible=false") // it holds nothing: its reaper lets it be
	a.until("/leader", http.StatusOK)
	b.until("/readyz", http.StatusOK)
	b.signal(syscall.SIGSTOP)
	defer b.signal(syscall.SIGCONT)

	says(t, exitUnreachable, []string{"does not answer: no answer within 5"}, "status", "--addr", b.url)
	says(t, exitUnreachable, []string{"does not answer: no answer within 200ms"}, "status", "--addr", b.url,
		"--timeout", "200ms")
	says(t, exitUsage, []string{"--timeout 0s: must be above 0"}, "members", "--addr", a.url, "--timeout", "0")
}

// TestHandoffToFrozenMember hands over to a process that is stopped, and whose lease lasts long.
func TestHandoffToFrozenMember(t *testing.T) {
	store := sqliteStore(t)
	a := start(t, "a", store, nil, "--lease-duration", "5m")
	a.until("/leader", http.StatusOK)
	b := start(t, "b", store, nil, "--lease-duration", "5m")
	b.until("/standby", http.StatusOK)
	b.signal(syscall.SIGSTOP)

	handoff := []string{"handoff", "--to", "b", "--wait", "--yes", "--addr", a.url}
	says(t, exitFailure, []string{"refused", "b accepts connections", "its process is frozen"}, handoff...)
	a.until("/leader", http.StatusOK)

	b.signal(syscall.SIGCONT)
	b.until("/readyz", http.StatusOK)
	says(t, 0, []string{"b leads election coordinator, epoch 2"}, handoff...)
}

// TestPausedWithoutLeader kills the leader of a paused election.
func TestPausedWithoutLeader(t *testing.T) {
	store := sqliteStore(t)
	a := start(t, "a", store, nil)
	a.until("/leader", http.StatusOK)
	b := start(t, "b", store, nil)
	b.until("/standby", http.StatusOK)
	at := []string{"--addr", b.url}
	says(t, 0, []string{"is paused"}, append([]string{"pause", "--yes"}, at...)...)
	a.signal(syscall.SIGKILL)
	seen(b, "/v1/status", func(s struct{ Leader string }) bool { return s.Leader == "" })

	says(t, 0, []string{"NOBODY LEADS election coordinator: the process of a died; nobody has taken over",
		"a leads no more: nobody has taken over"}, append([]string{"status"}, at...)...)
	says(t, 0, []string{"died"}, append([]string{"history"}, at...)...)
	for _, args := range [][]string{{"handoff", "--to", "b", "--yes"}, {"step-down", "--yes"}} {
		says(t, exitFailure, []string{
			"refused: nobody leads, and the election is paused: 'regent resume coordinator' lets candidates claim it",
		}, append(args, at...)...)
	}
}

// TestTwoProcessesWithOneID asks the process that could not join.
func TestTwoProcessesWithOneID(t *testing.T) {
	store := sqliteStore(t)
	start(t, "a", store, nil).until("/leader", http.StatusOK)
	second := start(t, "a", store, nil)
	seen(second, "/readyz", func(h struct {
		Leader string
		Checks map[string]string
	}) bool {
		return h.Leader == "a" && strings.Contains(h.Checks["member"], "another process")
	})

	says(t, 0, []string{"this process of a does not lead election coordinator: another process with its ID does",
		"because another process with member ID"}, "why", "--addr", second.url)
}

// TestCauseOfDeath ends members in three ways: what the cluster says of them must be true.
func TestCauseOfDeath(t *testing.T) {
	r := startRedis(t)
	// On SQLite the standby may see the death before the reaper has written why.
	for store, killed := range map[string]string{
		sqliteStore(t): "the process of a ",
		r.address():    "the process of a was frozen past its deadline, and its reaper killed it",
	} {
		t.Run(store[:5], func(t *testing.T) {
			t.Parallel()
			lease := append(quickLease(), "--lease-duration", "10s") // longer than a reaper may take
			a := start(t, "a", store, nil, lease...)
			a.until("/leader", http.StatusOK)
			b := start(t, "b", store, nil, lease...)
			b.until("/standby", http.StatusOK)
			dies := start(t, "dies", store, nil, lease...)
			dies.until("/standby", http.StatusOK)
			leaves := start(t, "leaves", store, nil, lease...)
			leaves.until("/standby", http.StatusOK)
			seen(a, "/v1/members", func(m struct{ Members []any }) bool { return len(m.Members) == 4 })
			dies.signal(syscall.SIGKILL)
			leaves.stop()

			says(t, 0, []string{"its process died", "it left"}, "members", "--addr", a.url)
			says(t, 0, []string{"dies does not lead", "it is gone since ", ": its process died"},
				"why", "dies", "--addr", a.url)

			a.signal(syscall.SIGSTOP) // its reaper kills it
			b.until("/leader", http.StatusOK)
			says(t, 0, []string{killed}, "status", "--addr", b.url)
			says(t, 0, []string{"a does not lead", "because it is "}, "why", "a", "--addr", b.url)
		})
	}
}
