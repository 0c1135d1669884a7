package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/node"
)

// TestLock has the scenarios of the profile lock that TestRedis does not have.
func TestLock(t *testing.T) {
	const key = "stargate:leader"
	quick := []string{"--profile", "lock", "--lease-duration", "8s", "--renew-interval", "1s", "--stop-timeout",
		"500ms", "--worker-timeout", "8s",
		"--heartbeat-interval", "1s", "--election-interval", "1s", "--election-interval-max", "8s", "--reaper=false"}
	holder := func(r *redisServer) string { return r.cli("GET", key) }

	t.Run("L04_a_failing_renewal_is_retried_then_the_leader_steps_down_and_acquires_anew", func(t *testing.T) {
		t.Parallel()
		const lease = 90 * time.Second // the key does not expire by itself
		r := startRedis(t)
		a := start(t, "a", r.address(), nil,
			append(quick, "--lease-duration", lease.String(), "--worker-timeout", lease.String(), "--renew-interval",
				"5s")...)
		a.until("/leader", 200)

		// While the election is paused nobody claims it, so that the test sees the key vanish.
		if code, _, body := a.do("POST", "/v1/elections/"+key+"/pause", `{"epoch":1}`); code != http.StatusOK {
			t.Fatalf("pause: %d %v", code, body)
		}

		log := r.monitor()
		began := time.Now()

		// Its renewals are refused, which is a failure and no loss.
		r.cli("CONFIG", "SET", "min-replicas-to-write", "1")
		a.await(`msg="lost leadership".* reason=partition`)

		if code, _ := a.get("/leader"); code != http.StatusServiceUnavailable {
			t.Errorf("/leader is %d", code)
		}
		if n := a.figures().RenewFailures; n != 4 {
			t.Errorf("%d renewals failed: one, and three tries more", n)
		}

		tries := log.writes(key, "a/")
		if len(tries) < 4 {
			t.Fatalf("the server saw renewals at %v", tries)
		}

		for i, want := range []float64{0.5, 1, 2} {
			if wait := tries[i+1] - tries[i]; wait < want-0.05 || wait > want+5 {
				t.Errorf("try %d came %.2f s after the one before, want %.1f", i+1, wait, want)
			}
		}

		r.cli("CONFIG", "SET", "min-replicas-to-write", "0")
		for limit := began.Add(lease - 20*time.Second); r.cli("EXISTS",
			key) != "0"; <-time.After(50 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("its key is still there: %q expires in %s ms", holder(r), r.cli("PTTL", key))
			}
		}

		if code, _, body := a.do("POST", "/v1/elections/"+key+"/resume", `{"epoch":1}`); code != http.StatusOK {
			t.Fatalf("resume: %d %v", code, body)
		}

		for a.until("/leader", 200)["epoch"] != 2.0 {
		}

		if got := holder(r); !strings.HasPrefix(got, "a/") {
			t.Errorf("the key holds %q", got)
		}

		a.stop()
	})

	t.Run("L05_the_loop_that_acquires_anew_asks_less_and_less_often_and_is_woken_by_the_expiry", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		// The lock of another client, of 20 s.
		if got := r.cli("SET", key, "a stranger", "NX", "PX", "20000"); got != "OK" {
			t.Fatal(got)
		}

		a := start(t, "a", r.address(), nil, quick...)
		a.until("/standby", 200)
		asked := func() int {
			for line := range strings.SplitSeq(r.cli("INFO", "commandstats"), "\n") {
				if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_evalsha:calls="); ok {
					n, _ := strconv.Atoi(rest[:strings.Index(rest, ",")])
					return n
				}
			}

			return 0
		}
		before := asked()
		a.until("/leader", 200) // at the stranger's expiry

		// Every second would be twenty times; 1, 2, 4 and 8 s, and the expiry, are five, and the claim one or two.
		if n := asked() - before; n > 12 {
			t.Errorf("it asked %d times in 20 s", n)
		}
		if body := a.until("/leader", 200); body["epoch"] != 1.0 {
			t.Errorf("got %v", body)
		}

		a.stop()
	})

	t.Run("L06_without_a_reaper_a_dead_leaders_key_runs_out_first", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		a := start(t, "a", r.address(), nil, quick...)
		a.until("/leader", 200)
		b := start(t, "b", r.address(), nil, quick...)
		b.until("/standby", 200)
		a.signal(syscall.SIGKILL)
		<-a.gone
		killed := time.Now()
		left, _ := strconv.Atoi(r.cli("PTTL", key))
		b.await("became leader")

		if took := time.Since(killed); took < time.Duration(left)*time.Millisecond-50*time.Millisecond {
			t.Errorf("b leads after %v, with %d ms to go", took, left)
		}
		if body := b.until("/leader", 200); body["epoch"] != 2.0 {
			t.Errorf("got %v", body)
		}

		b.stop()
	})

	t.Run("L09_an_acquisition_that_fails_makes_no_leader", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		r.cli("CONFIG", "SET", "min-replicas-to-write", "1") // no write is taken
		a := start(t, "a", r.address(), nil, quick...)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()

		for limit := time.Now().Add(5 * time.Second); time.Now().Before(limit); <-tick.C {
			if code, body := a.get("/leader"); code == 200 || body["role"] == "leader" {
				t.Fatalf("it leads: %v", body)
			}
		}

		if got := r.cli("EXISTS", key); got != "0" || len(a.said("became leader")) != 0 {
			t.Errorf("the key: %s", got)
		}
		r.cli("CONFIG", "SET", "min-replicas-to-write", "0")
		a.until("/leader", 200)
		a.stop()
	})

	t.Run("L10_of_five_that_acquire_at_once_exactly_one_leads", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		var nodes []*daemon
		for i := range 5 {
			nodes = append(nodes, start(t, fmt.Sprint("n", i), r.address(), nil, quick...))
		}

		stop := neverTwo(t, nodes...)
		for limit := time.Now().Add(60 * time.Second); len(leading(nodes)) == 0; {
			if time.Now().After(limit) {
				t.Fatal("nobody leads")
			}
		}

		leaders := 0
		for _, n := range nodes {
			if body := n.until("/readyz", 200); body["role"] == "leader" {
				leaders++
				if got := holder(r); !strings.HasPrefix(got, n.name+"/") {
					t.Errorf("%s leads, and the key holds %q", n.name, got)
				}
			}
		}

		stop()

		if leaders != 1 {
			t.Errorf("%d lead", leaders)
		}

		for _, n := range nodes {
			n.stop()
		}
	})

	t.Run("L11_renewals_keep_the_leader_and_its_epoch", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		a := start(t, "a", r.address(), nil, quick...)
		a.until("/leader", 200)
		before := holder(r)

		for a.figures().Heartbeats < 4 {
			if code, body := a.get("/leader"); code != 200 || body["epoch"] != 1.0 {
				t.Fatalf("%d %v", code, body)
			}
		}

		if got := holder(r); got != before || len(a.said("lost leadership")) != 0 {
			t.Errorf("the key held %q, and holds %q", before, got)
		}
		a.stop()
	})

	t.Run("L12_a_leader_that_is_demoted_leaves_its_successors_key_alone", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		p := startProxy(t, "127.0.0.1:"+r.port)
		a := start(t, "a", p.address(), nil, quick...)
		a.until("/leader", 200)
		b := start(t, "b", r.address(), nil, quick...)
		b.until("/standby", 200)
		stop := neverTwo(t, a, b)
		p.cutTo.Store(true)
		a.await(`msg="lost leadership"`)
		b.await("became leader")

		mine := holder(r)
		if !strings.HasPrefix(mine, "b/") {
			t.Errorf("the key holds %q", mine)
		}

		p.heal()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()

		for limit := time.Now().Add(5 * time.Second); time.Now().Before(limit); <-tick.C {
			if got := holder(r); got != mine {
				t.Fatalf("the key held %q, and holds %q", mine, got)
			}
		}

		seen(a, "/readyz", func(h node.Health) bool {
			return h.Role == node.Standby && h.Leader == "b" && h.Epoch == 2
		})
		stop()
		a.stop()

		if got := holder(r); got != mine {
			t.Errorf("after a has left the key holds %q", got)
		}

		b.stop()
	})

	t.Run("L13_a_write_to_a_standby_is_the_leaders_or_nobodys", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		args := append([]string{"--register"}, quick...)
		a := start(t, "a", r.address(), nil, args...)
		a.until("/leader", 200)
		b := start(t, "b", r.address(), nil, args...)
		b.until("/standby", 200)

		put := func(n *daemon, name string) int {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, n.url+"/v1/polls/"+name,
				strings.NewReader(`{"kind":"tcp","target":"127.0.0.1:1","interval":"1h"}`))
			if err != nil {
				t.Fatal(err)
			}

			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}

			_ = resp.Body.Close()
			return resp.StatusCode
		}
		if code := put(b, "x"); code != http.StatusCreated {
			t.Errorf("through the standby: %d", code)
		}

		a.await("poll stored.*poll=x")
		a.signal(syscall.SIGKILL)
		<-a.gone

		if code := put(b, "y"); code != http.StatusServiceUnavailable && code != http.StatusBadGateway {
			t.Errorf("with the leader dead: %d", code)
		}
		if len(b.said("poll stored")) != 0 {
			t.Error("the standby has kept it")
		}

		b.until("/leader", 200)
		if code := put(b, "y"); code != http.StatusCreated {
			t.Errorf("as the leader: %d", code)
		}

		b.stop()
	})
}
