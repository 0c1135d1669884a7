package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/driver"
)

// killed starts a leader and a standby with a lease of 30 s, kills the leader, and returns how long it took until the
// standby led.
func killed(t testing.TB, store, profile string) time.Duration {
	t.Helper()
	a := start(t, "a", store, nil, "--profile", profile, "--lease-duration", "30s")
	a.until("/leader", 200)
	b := start(t, "b", store, nil, "--profile", profile, "--lease-duration", "30s")
	b.until("/standby", 200)
	at := time.Now()
	a.signal(syscall.SIGKILL)
	b.await("became leader")
	took := time.Since(at)
	b.stop()

	return took
}

// BenchmarkTakeoverAfterKill measures the time from kill -9 of a leader to the next term, at a lease of 30 s.
func BenchmarkTakeoverAfterKill(b *testing.B) {
	for _, profile := range []string{"cluster", "lock"} {
		b.Run(profile, func(b *testing.B) {
			store := sqliteStore(b)
			var sum time.Duration
			for range b.N {
				sum += killed(b, store, profile)
			}

			b.ReportMetric(float64(sum.Milliseconds())/float64(b.N), "ms/takeover")
		})
	}
}

func TestServe(t *testing.T) {
	t.Run("C01_C03_C21_a_node_campaigns_by_default_and_a_single_one_leads_at_once", func(t *testing.T) {
		t.Parallel()
		a := start(t, "a", sqliteStore(t), nil)
		if body := a.until("/readyz", 200); body["role"] != "leader" && body["role"] != "standby" {
			t.Errorf("got %v", body)
		}

		body := a.until("/leader", 200)
		if body["node"] != "a" || body["role"] != "leader" || body["leader"] != "a" || body["epoch"] != 1.0 ||
			body["leaseRemainingMs"].(float64) <= 0 {
			t.Errorf("got %v", body)
		}

		if code := a.stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})

	t.Run("C02_an_ineligible_node_registers_and_observes_and_sends_not_one_campaign_request", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		log := r.monitor()
		o := start(t, "o", r.address(), []string{"COORDINATOR_ELIGIBLE=false"}, "--election-interval", "1s")
		o.await(`msg=member:joined`)
		<-time.After(4 * time.Second) // it reads the vacant election several times

		if n := log.writes("coordinator", ""); len(n) != 0 {
			t.Errorf("%d writes of the election with no candidate", len(n))
		}
		if n := log.writes(driver.MemberRegister("o"), "o/"); len(n) < 2 {
			t.Errorf("%d heartbeats", len(n))
		}

		a := start(t, "a", r.address(), nil)
		a.until("/leader", 200)

		for body := o.until("/readyz", 200); body["leader"] != "a"; body = o.until("/readyz", 200) {
			if body["role"] != "observer" {
				t.Fatalf("got %v", body)
			}
		}

		a.stop()

		for body := o.until("/readyz", 200); body["leader"] != ""; body = o.until("/readyz", 200) {
		}

		if body := o.until("/readyz", 200); body["role"] != "observer" || len(o.said("became leader")) != 0 {
			t.Errorf("got %v", body)
		}
		if n := log.writes("coordinator", "o/"); len(n) != 0 {
			t.Errorf("it sent %d claims", len(n))
		}

		o.stop()
	})

	t.Run("C06_C09_a_stopped_leader_releases_first_and_stays_standby_when_it_is_back", func(t *testing.T) {
		t.Parallel()
		store := sqliteStore(t)
		a := start(t, "a", store, nil, "--lease-duration", "30s")
		a.until("/leader", 200)
		b := start(t, "b", store, nil, "--lease-duration", "30s")
		b.until("/standby", 200)

		if code := a.stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if l := a.said(`lost leadership|member:left|msg=stopped`); len(l) != 3 ||
			!strings.Contains(l[0], "reason=shutdown") || !strings.Contains(l[1], "member:left") {
			t.Errorf("order: %q", l)
		}

		b.until("/leader", 200)
		again := start(t, "a", store, nil, "--lease-duration", "30s")
		if body := again.until("/standby", 200); body["leader"] != "b" || body["epoch"] != 2.0 {
			t.Errorf("got %v", body)
		}

		again.stop()
		b.stop()
	})

	for _, profile := range []string{"cluster", "lock"} {
		t.Run("C07_after_kill_9_at_a_30s_lease_a_standby_leads_at_once_"+profile, func(t *testing.T) {
			t.Parallel()
			store := sqliteStore(t)

			// A busy machine can delay one takeover, but not all of them.
			best := time.Hour
			for range 5 {
				took := killed(t, store, profile)
				if took > 10*time.Second {
					t.Errorf("%v after kill -9", took)
				}
				if best = min(best, took); best < 500*time.Millisecond {
					break
				}
			}

			t.Logf("%v after kill -9", best)
			if best > time.Second {
				t.Errorf("the best of five takeovers came %v after kill -9: well under a second is promised", best)
			}
		})
	}

	t.Run("C07_a_frozen_leader_is_killed_at_its_deadline_before_anyone_else_leads", func(t *testing.T) {
		t.Parallel()
		store := sqliteStore(t)
		a := start(t, "a", store, nil, "--lease-duration", "4s")
		a.until("/leader", 200)
		b := start(t, "b", store, nil, "--lease-duration", "4s")
		b.until("/standby", 200)
		a.signal(syscall.SIGSTOP)
		b.await("became leader")

		select {
		case <-a.gone:
		case <-time.After(10 * time.Second):
			t.Error("the frozen leader lives on")
		}

		b.stop()
	})

	t.Run("C10_of_five_nodes_that_start_at_once_one_leads_and_all_others_watch_it", func(t *testing.T) {
		t.Parallel()
		store := sqliteStore(t)
		nodes := map[string]*daemon{}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			nodes[name] = launch(t, name, command(t, nil, serveArgs(t, name, store)...), nil)
		}

		for _, d := range nodes {
			d.serves()
		}

		// watched waits until all nodes name one leader in an epoch, and returns it.
		watched := func(epoch float64) string {
			leader := ""
			for _, d := range nodes {
				h := seen(d, "/readyz", func(h node.Health) bool { return float64(h.Epoch) == epoch && h.Leader != "" })
				if leader == "" {
					leader = h.Leader
				}

				if h.Leader != leader || (h.Role == node.Leader) != (d.name == leader) ||
					h.LeaderAddr != strings.TrimPrefix(nodes[leader].url, "http://") {
					t.Errorf("%s says %+v, another one that %s leads", d.name, h, leader)
				}
			}

			return leader
		}
		first := watched(1)
		nodes[first].stop()
		delete(nodes, first)
		second := watched(2) // all others follow the next change
		nodes[second].signal(syscall.SIGKILL)
		<-nodes[second].gone
		delete(nodes, second)
		watched(3)

		for _, d := range nodes {
			d.stop()
		}
	})

	t.Run("C18_C19_the_old_key_is_ignored_and_warned_about_once", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "regent.yaml")
		writeFile(t, file, "cluster_coordinator: false\ntakeoverDelay: 2000\n")
		a := start(t, "a", "memory:", nil, "--config", file)
		a.until("/leader", 200)

		if got := a.said("cluster_coordinator"); len(got) != 1 || !strings.Contains(got[0], "level=WARN") {
			t.Errorf("said %q", got)
		}
		a.stop()
	})

	t.Run("C13_C22_configuration_is_checked_and_explained", func(t *testing.T) {
		t.Parallel()
		out, err := command(t, []string{"COORDINATOR_TAKEOVER_DELAY=2000"}, "serve", "--check-config", "--store",
			"redis://:hunter2@localhost").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "takeoverDelay") || !strings.Contains(string(out), "2s") ||
			!strings.Contains(string(out), "COORDINATOR_TAKEOVER_DELAY") || strings.Contains(string(out), "hunter2") {
			t.Errorf("%v\n%s", err, out)
		}

		cmd := command(t, nil, "serve", "--startup-jitter-min=-100")
		out, _ = cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != exitConfig ||
			!strings.Contains(string(out), "startupJitterMin -100ms: startupJitterMin cannot be negative") {
			t.Errorf("exit code %d\n%s", cmd.ProcessState.ExitCode(), out)
		}

		cmd = command(t, nil, "serve", "--listen", "0.0.0.0:0")
		out, _ = cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != exitConfig || !strings.Contains(string(out), "token") {
			t.Errorf("exit code %d\n%s", cmd.ProcessState.ExitCode(), out)
		}

		cmd = command(t, nil, "serve", "--no-such-flag")
		out, _ = cmd.CombinedOutput()

		if cmd.ProcessState.ExitCode() != exitUsage {
			t.Errorf("exit code %d\n%s", cmd.ProcessState.ExitCode(), out)
		}
	})

	t.Run("a_store_that_cannot_be_opened_is_waited_for_and_said", func(t *testing.T) {
		t.Parallel()
		r := newRedis(t)
		a := start(t, "a", r.address(), nil)
		a.await("store unreachable")

		if code, body := a.get("/readyz"); code != 503 || body["role"] != "starting" {
			t.Errorf("%d %v", code, body)
		}
		if code, _ := a.get("/livez"); code != 200 {
			t.Errorf("livez is %d", code)
		}

		r.start()
		a.until("/leader", 200)
		a.stop()
	})
}
