package main

import (
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// TestLeadershipEvents checks the events of terms, on /v1/events and in logs.
func TestLeadershipEvents(t *testing.T) {
	post := func(t *testing.T, d *daemon, verb, body string) {
		t.Helper()
		if code, _, answer := d.do("POST", "/v1/elections/coordinator/"+verb, body); code != http.StatusOK {
			t.Fatalf("%s: %d %v", verb, code, answer)
		}
	}

	quick := []string{"--lease-duration", "4s", "--stop-timeout", "500ms", "--heartbeat-interval", "1s",
		"--election-interval", "1s", "--takeover-delay", "500ms"}

	for _, tt := range []struct {
		reason string // as a pattern
		source string // the node whose events have it, or log
		lose   func(t *testing.T, r *redisServer, p *proxy, a *daemon)
	}{
		{"shutdown", "log", func(_ *testing.T, _ *redisServer, _ *proxy, a *daemon) { a.signal(syscall.SIGTERM) }},
		{"handoff", "a", func(t *testing.T, _ *redisServer, _ *proxy, a *daemon) {
			post(t, a, "handoff", `{"epoch":1,"to":"b"}`)
		}},
		{"stepped down", "a", func(t *testing.T, _ *redisServer, _ *proxy, a *daemon) {
			post(t, a, "step-down", `{"epoch":1}`)
		}},
		{"paused", "a", func(t *testing.T, _ *redisServer, _ *proxy, a *daemon) {
			post(t, a, "pause", `{"epoch":1}`)
			seen(a, "/v1/elections/coordinator", func(e struct{ Paused bool }) bool { return e.Paused })
			post(t, a, "step-down", `{"epoch":1}`)
		}},
		{"partition", "a", func(_ *testing.T, _ *redisServer, p *proxy, _ *daemon) {
			p.cutTo.Store(true)
			p.cutFrom.Store(true)
		}},
		{"lost lease", "a", func(_ *testing.T, r *redisServer, _ *proxy, _ *daemon) {
			name := driver.MemberRegister("a")
			r.cli("DEL", "{"+name+"}:regent", name)
		}},
		{"died|expired", "b", func(_ *testing.T, _ *redisServer, _ *proxy, a *daemon) { a.signal(syscall.SIGKILL) }},
	} {
		t.Run("C14_C15_a_leader_says_that_it_became_one_and_why_it_is_no_more/"+
			strings.NewReplacer(" ", "_", "|", "_or_").Replace(tt.reason), func(t *testing.T) {
			t.Parallel()
			r := startRedis(t)
			p := startProxy(t, "127.0.0.1:"+r.port)
			a := start(t, "a", p.address(), nil, quick...)
			a.until("/leader", 200)

			e := a.happens(regent.EventBecameLeader, func(regent.Event) bool { return true })
			if e.Node != "a" || e.Epoch != 1 || e.Election != "coordinator" || e.Measurements["time"] == 0 ||
				e.Time.IsZero() {
				t.Errorf("it became leader by %+v", e)
			}

			b := start(t, "b", r.address(), nil, quick...)
			b.until("/standby", 200)

			tt.lose(t, r, p, a)
			reason := regexp.MustCompile("^(" + tt.reason + ")$")

			if tt.source == "log" {
				line := a.await(`msg="lost leadership".*`)
				for _, want := range []string{" node=a ", " epoch=1 ", "reason=" + tt.reason} {
					if !strings.Contains(line+" ", want) {
						t.Errorf("%q lacks %q", line, want)
					}
				}

				b.stop()
				return
			}

			source := map[string]*daemon{"a": a, "b": b}[tt.source]
			lost := source.happens(regent.EventLostLeadership, func(e regent.Event) bool { return e.Node == "a" })
			if lost.Epoch != 1 || !reason.MatchString(lost.Metadata["reason"]) || lost.Election != "coordinator" ||
				lost.Measurements["time"] == 0 {
				t.Errorf("it lost by %+v", lost)
			}

			b.stop()
		})
	}

	t.Run("C16_a_standby_says_who_led_and_who_leads", func(t *testing.T) {
		t.Parallel()
		store := sqliteStore(t)
		a := start(t, "a", store, nil)
		a.until("/leader", 200)
		b := start(t, "b", store, nil)

		x := start(t, "x", store, nil)
		for _, d := range []*daemon{b, x} {
			e := d.happens(regent.EventLeaderChanged, func(e regent.Event) bool { return e.Epoch == 1 })
			if e.Metadata["new_leader"] != "a" || e.Metadata["previous_leader"] != "" {
				t.Errorf("%s says %+v", d.name, e)
			}
		}

		x.await("member:joined")
		post(t, a, "handoff", `{"epoch":1,"to":"x"}`)
		e := b.happens(regent.EventLeaderChanged, func(e regent.Event) bool { return e.Epoch == 2 })
		if e.Metadata["new_leader"] != "x" || e.Metadata["previous_leader"] != "a" {
			t.Errorf("b says %+v", e)
		}

		for _, d := range []*daemon{a, b, x} {
			d.stop()
		}
	})

	t.Run("P02_the_named_successor_leads_and_nobody_else_tries", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		var nodes []*daemon
		for _, name := range []string{"a", "b", "c", "d"} {
			d := start(t, name, r.address(), nil, "--lease-duration", "30s", "--heartbeat-interval", "5s")
			if nodes = append(nodes, d); name == "a" {
				d.until("/leader", 200)
			}

			d.await("member:joined")
			d.until("/readyz", 200)
			seen(d, "/readyz", func(h struct{ Leader string }) bool { return h.Leader == "a" })
		}

		log := r.monitor()
		post(t, nodes[0], "handoff", `{"epoch":1,"to":"c"}`)

		if body := nodes[2].until("/leader", 200); body["epoch"] != 2.0 {
			t.Errorf("c says %v", body)
		}

		// The release, and the successor's claim.
		if all, claims := log.writes("coordinator", ""), log.writes("coordinator", "c/"); len(all) != 2 ||
			len(claims) != 1 {
			t.Errorf("%d writes of the election, %d of them by the successor: want 2 and 1", len(all), len(claims))
		}

		for _, d := range nodes {
			d.stop()
		}
	})
}

// TestLeaderChangedEvent checks the events of a failover on nodes that did not take part in it.
func TestLeaderChangedEvent(t *testing.T) {
	t.Run("E04_the_notice_on_a_standby_and_on_a_worker_carries_the_epoch", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, sqliteStore(t), "")
		c.start("a").until("/leader", 200)
		c.start("b").until("/standby", 200)
		c.start("c").until("/standby", 200)
		c.start("w", "--eligible=false").until("/readyz", 200)
		began := time.Now()
		c.nodes["a"].signal(syscall.SIGKILL)

		next := c.leader(c.nodes["a"])
		for _, d := range c.nodes {
			if d == next || d.name == "a" {
				continue
			}
			e := d.happens(regent.EventLeaderChanged, func(e regent.Event) bool {
				return e.Metadata["new_leader"] == next.name
			})
			if e.Epoch != 2 || e.Metadata["previous_leader"] != "a" || e.Node != d.name ||
				e.Election != "coordinator" || e.Time.Before(began) {
				t.Errorf("%s answers %+v", d.name, e)
			}
		}

		if e := next.happens(regent.EventBecameLeader, func(regent.Event) bool { return true }); e.Epoch != 2 {
			t.Errorf("%s answers %+v", next.name, e)
		}
	})
}
