package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestRedis(t *testing.T) {
	lock := []string{"--profile", "lock"}

	t.Run("L01_L02_L03_the_key_is_the_election_with_an_expiry_of_30s_and_is_renewed", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		a := start(t, "a", r.address(), nil, lock...)
		a.until("/leader", 200)
		b := start(t, "b", r.address(), nil, lock...)
		b.until("/standby", 200)

		if got := r.cli("GET", "stargate:leader"); !strings.HasPrefix(got, "a/") {
			t.Errorf("the key holds %q", got)
		}

		ttl := func() int {
			n, _ := strconv.Atoi(r.cli("PTTL", "stargate:leader"))
			return n
		}
		if n := ttl(); n <= 0 || n > 30000 {
			t.Errorf("it expires in %d ms", n)
		}

		// It falls until the renewal at 10 s, and no further.
		least, before := 30000, ttl()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()

		for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); <-tick.C {
			now := ttl()
			least = min(least, now)

			if now > before+5000 {
				break
			}
			before = now
		}

		if least < 16500 || least > 23500 {
			t.Errorf("it was renewed with %d ms to go", least)
		}

		a.stop()
		b.until("/leader", 200)

		if got := r.cli("GET", "stargate:leader"); !strings.HasPrefix(got, "b/") {
			t.Errorf("the key holds %q", got)
		}

		b.stop()
		if got := r.cli("EXISTS", "stargate:leader"); got != "0" {
			t.Errorf("the key is still there")
		}
	})

	t.Run("L07_failover_as_its_seed_describes_it", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		a := start(t, "a", r.address(), nil, lock...)
		<-time.After(10 * time.Second)

		for _, path := range []string{"/healthz", "/readyz"} {
			if code, body := a.get(path); code != 200 || body["role"] != "leader" || body["leader"] != "a" {
				t.Errorf("%s: %d %v", path, code, body)
			}
		}

		a.signal(syscall.SIGKILL)
		<-a.gone
		<-time.After(5 * time.Second)
		b := start(t, "b", r.address(), nil, lock...)
		<-time.After(15 * time.Second)

		for _, path := range []string{"/healthz", "/readyz"} {
			if code, body := b.get(path); code != 200 || body["role"] != "leader" || body["leader"] != "b" ||
				body["epoch"] != 2.0 {
				t.Errorf("%s: %d %v", path, code, body)
			}
		}

		if n, m := len(a.said("became leader")), len(b.said("became leader")); n != 1 || m != 1 {
			t.Errorf("a became leader %d times, b %d times", n, m)
		}

		b.stop()
	})

	t.Run("L08_split_brain_as_its_seed_describes_it", func(t *testing.T) {
		t.Parallel()

		// The lease is shorter than the cut, so that b takes over while a tries to renew.
		short := append(lock, "--lease-duration", "7s", "--renew-interval", "2s", "--stop-timeout", "500ms",
			"--worker-timeout", "7s",
			"--heartbeat-interval", "2s", "--election-interval", "1s", "--reaper=false")
		r := startRedis(t)
		p := startProxy(t, "127.0.0.1:"+r.port)
		a := start(t, "a", p.address(), nil, short...)
		a.until("/leader", 200)
		b := start(t, "b", r.address(), nil, short...)
		b.until("/standby", 200)
		second, fast := roles(t, time.Second, a, b), roles(t, 20*time.Millisecond, a, b)
		both := neverTwo(t, a, b)
		p.cutTo.Store(true)
		p.cutFrom.Store(true)
		<-time.After(10 * time.Second)
		b.await("became leader")
		p.heal()

		body := a.until("/standby", 200)
		for body["leader"] != "b" {
			body = a.until("/standby", 200)
		}

		<-time.After(5 * time.Second) // past every renewal and retry of the cut
		second()
		fast()
		both()
		tookOver(t, a, b, false)
		a.stop()
		b.stop()
	})

	for name, hurt := range map[string]func(*redisServer, *proxy, *daemon){
		"requests_cut": func(_ *redisServer, p *proxy, _ *daemon) { p.cutTo.Store(true) },
		"answers_cut":  func(_ *redisServer, p *proxy, _ *daemon) { p.cutFrom.Store(true) },
		"both_ways_cut": func(_ *redisServer, p *proxy, _ *daemon) {
			p.cutTo.Store(true)
			p.cutFrom.Store(true)
		},
		"slow":          func(_ *redisServer, p *proxy, _ *daemon) { p.delay.Store(int64(1500 * time.Millisecond)) },
		"leader_paused": func(_ *redisServer, _ *proxy, a *daemon) { a.signal(syscall.SIGSTOP) },
		"server_restarted": func(r *redisServer, _ *proxy, _ *daemon) {
			_ = r.cmd.Process.Kill()
			_ = r.cmd.Wait()
			r.start()
		},
		"server_flushed": func(r *redisServer, _ *proxy, _ *daemon) { r.cli("FLUSHALL") },
	} {
		for _, profile := range []string{"lock", "cluster"} {
			t.Run(fmt.Sprintf("C11_L08_never_two_leaders_with_%s_%s", name, profile), func(t *testing.T) {
				t.Parallel()
				args := []string{"--profile", profile, "--lease-duration", "5s", "--stop-timeout", "500ms",
					"--heartbeat-interval", "1s", "--takeover-delay", "500ms", "--election-interval", "1s",
					"--reaper=false"}

				if profile == "lock" {
					args = append(args, "--renew-interval", "1s", "--worker-timeout", "5s")
				}

				r := startRedis(t)
				p := startProxy(t, "127.0.0.1:"+r.port)
				a := start(t, "a", p.address(), nil, args...)
				a.until("/leader", 200)
				b := start(t, "b", r.address(), nil, args...)
				b.until("/standby", 200)
				stop := neverTwo(t, a, b)
				hurt(r, p, a)
				<-time.After(8 * time.Second)

				silent := slices.Contains([]string{"requests_cut", "answers_cut", "both_ways_cut", "leader_paused"},
					name)
				if silent { // for longer than its lease
					b.await("became leader")
				}
				if name == "leader_paused" {
					a.signal(syscall.SIGCONT)
				}

				p.heal()
				<-time.After(4 * time.Second)
				stop()

				// Somebody leads, and epochs have only grown.
				for limit := time.Now().Add(60 * time.Second); ; {
					x, _ := a.get("/leader")
					y, _ := b.get("/leader")
					if x == 200 || y == 200 {
						break
					}
					if time.Now().After(limit) {
						t.Fatal("nobody leads any more")
					}
				}

				if silent {
					a.until("/standby", 200)
					tookOver(t, a, b, name == "leader_paused")
				}

				epochsGrow(t, a, b)
				a.stop()
				b.stop()
				if name == "server_flushed" && len(a.said("store:regressed"))+len(b.said("store:regressed")) == 0 {
					t.Error("nobody has noticed the flush")
				}
			})
		}
	}
}
