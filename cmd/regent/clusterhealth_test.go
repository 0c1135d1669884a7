package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/cmd/regent/internal/health"
)

// TestClusterHealth asks any node for the state of a cluster, as the leader sees it, while nodes fail.
func TestClusterHealth(t *testing.T) {
	timing := []string{"--lease-duration", "6s", "--stop-timeout", "300ms", "--heartbeat-interval", "500ms",
		"--election-interval", "500ms", "--takeover-delay", "300ms", "--reaper=false"}
	status := func(c health.Cluster) map[string]health.Status {
		all := map[string]health.Status{}
		for _, m := range c.Members {
			all[m.ID] = m.Status
		}
		return all
	}
	says := func(reasons []string, words ...string) bool {
		text := strings.Join(reasons, "; ")
		for _, w := range words {
			if !strings.Contains(text, w) {
				return false
			}
		}

		return true
	}

	t.Run("all_nodes_give_the_same_answer_until_no_leader_is_left", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, startRedis(t).address(), "")
		a := c.start("a", timing...)
		a.until("/leader", 200)
		b := c.start("b", append([]string{"--region", "north", "--labels", "disk=fast"}, timing...)...)
		standby := c.start("c", timing...)
		w := c.start("w", append([]string{"--eligible=false"}, timing...)...)

		roles := map[string]string{"a": "leader", "b": "standby", "c": "standby", "w": "observer"}
		for _, d := range c.nodes {
			got := seen(d, "/v1/members", func(h health.Cluster) bool {
				return h.Status == health.Healthy && h.Counts.Healthy == 4 && len(h.Members) == 4 &&
					len(h.Reasons) == 0 &&
					!slices.ContainsFunc(h.Members, func(m health.Member) bool { return m.Role != roles[m.ID] })
			})
			if got.Leader != "a" || got.Epoch != 1 || !got.Known || got.CheckedAt.IsZero() {
				t.Errorf("%s answers %+v", d.name, got)
			}

			for _, m := range got.Members {
				if m.Version == "" || m.ProbeLatencyMs < 0 || m.Addr == "" || m.Why != "" || !m.Healthy ||
					m.Eligible != (m.ID != "w") {
					t.Errorf("%s answers %+v", d.name, m)
				}

				if m.ID == "b" && (m.Region != "north" || m.Labels["disk"] != "fast") {
					t.Errorf("%s answers %+v", d.name, m)
				}
			}

			seen(d, "/v1/status", func(s api.Status) bool {
				return s.Cluster != nil && s.Cluster.Status == health.Healthy && s.Cluster.Counts.Members == 4
			})
		}

		// Without a notification the leader lists members twice a minute. A member that joins notifies it.
		notice := func(name string) { c.start(name, append([]string{"--eligible=false"}, timing...)...) }
		b.signal(syscall.SIGKILL)
		<-b.gone
		notice("x")

		e := a.happens(health.EventNodeDown, func(e regent.Event) bool { return e.Metadata["member"] == "b" })
		if e.Epoch != 1 || e.Metadata["to"] != string(health.Unreachable) ||
			!strings.Contains(e.Metadata["why"], "no heartbeat for") {
			t.Errorf("a answers %+v", e)
		}

		a.await("level=WARN msg=cluster:node_down")
		seen(standby, "/v1/members", func(h health.Cluster) bool {
			return h.Status == health.Degraded && h.Counts.Unreachable == 1 &&
				says(h.Reasons, "1 of 5 members is not healthy", "b (unreachable: no heartbeat for")
		})

		standby.signal(syscall.SIGKILL)
		<-standby.gone
		notice("y")
		seen(w, "/v1/status", func(s api.Status) bool {
			return s.Cluster != nil && s.Cluster.Status == health.Critical && s.Cluster.Counts.Unreachable == 2 &&
				says(s.Cluster.Reasons, "no other member could take over", "2 of 6 members are not healthy")
		})

		// A member is back, which is reported.
		c.again("b")
		back := a.happens(health.EventNodeUp, func(up regent.Event) bool {
			return up.Metadata["member"] == "b" && up.Seq > e.Seq
		})
		// It has revoked its former incarnation first, and may have been listed without one.
		if from := health.Status(back.Metadata["from"]); from != health.Unreachable && from != health.Gone {
			t.Errorf("a answers %+v", back)
		}

		seen(w, "/v1/members", func(h health.Cluster) bool {
			return status(h)["b"] == health.Healthy && h.Status == health.Degraded
		})

		for _, name := range []string{"b", "x", "y"} {
			c.nodes[name].stop()
		}

		a.stop()
		s := seen(w, "/v1/status", func(s api.Status) bool {
			return s.Cluster != nil && s.Cluster.Status == health.Critical && s.Leader == ""
		})
		if !says(s.Cluster.Reasons, "nobody checks the members: nobody leads") || s.Role != "observer" {
			t.Errorf("w answers %+v", s.Cluster)
		}

		got := seen(w, "/v1/members", func(h health.Cluster) bool { return h.Status == health.Critical })
		if !says(got.Reasons, "nobody checks the members") || status(got)["w"] != health.Unknown {
			t.Errorf("w answers %+v", got)
		}

		w.stop()
	})

	t.Run("a_leader_that_is_dead_and_still_named_is_no_coordinator_either", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, startRedis(t).address(), "")
		a := c.start("a", timing...)
		a.until("/leader", 200)
		w := c.start("w", append([]string{"--eligible=false"}, timing...)...)
		seen(w, "/v1/status", func(s api.Status) bool { return s.Cluster != nil && s.Cluster.Status == health.Healthy })
		a.signal(syscall.SIGKILL)
		<-a.gone

		s := seen(w, "/v1/status", func(s api.Status) bool {
			return s.Cluster != nil && s.Cluster.Status == health.Critical
		})
		if !says(s.Cluster.Reasons, "nobody checks the members: the leader, a, cannot be reached at") &&
			!says(s.Cluster.Reasons, "nobody checks the members: nobody leads") {
			t.Errorf("w answers %+v", s.Cluster)
		}

		w.stop()
	})
}
