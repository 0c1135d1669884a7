package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// facts sets the facts of a node.
func facts(t *testing.T, token, profile, version string, lease time.Duration) func(*node.Options) {
	t.Helper()
	c := regent.Cluster()
	c.LeaseDuration = lease
	return factsOf(t, token, profile, version, c)
}

// factsOf sets the facts of a node with a configuration.
func factsOf(t *testing.T, token, profile, version string, c regent.Config) func(*node.Options) {
	t.Helper()
	f, err := node.Facts("seat", token, profile, version, c)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *node.Options) { o.Facts = f }
}

// eventsOf returns the events of a kind that a node has sent.
func eventsOf(t *testing.T, n *node.Node, kind regent.EventKind) []regent.Event {
	t.Helper()
	s, err := n.Hub.Subscribe("")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()

	var found []regent.Event
	for _, e := range s.Past {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// clients returns a function that opens a store with a client for each node.
func clients(store *memstore.Store) func(id string) opener {
	return func(id string) opener { return opens(store.Client(id, memstore.Faults{})) }
}

// difference is a case of a node that has another configuration.
type difference struct {
	key    string
	own    string
	theirs string
	fault  bool // a check of both nodes fails
	other  func(*node.Options)
}

// run starts two nodes alike and one with another configuration.
func (d difference) run(t *testing.T, alike func(*node.Options)) {
	open := clients(memstore.New())
	a, stopA := start(t, "a", open("a"), alike)
	time.Sleep(2 * time.Second)
	same, stopSame := start(t, "same", open("same"), alike)
	odd, stopOdd := start(t, "odd", open("odd"), d.other)
	time.Sleep(40 * time.Second)

	data := d.check(t, a, "odd")
	if data["own"] != d.own || data["theirs"] != d.theirs {
		t.Errorf("event %v", data)
	}
	d.check(t, odd, "a")
	events := eventsOf(t, same, node.EventConfigDiffers)
	if h := same.Health(); len(events) != 0 || len(h.Differs) != 0 {
		t.Errorf("a node that is like the leader has events %v, differences %v", events, h.Differs)
	}

	stopOdd()
	time.Sleep(40 * time.Second)
	if h := a.Health(); len(h.Differs) != 0 || h.Checks["config"] != "ok" {
		t.Errorf("after the other node has left: %+v", h.Differs)
	}
	stopSame()
	stopA()
}

// check checks the event and the health of a node that differs from a member, and returns the metadata of the event.
func (d difference) check(t *testing.T, n *node.Node, member string) map[string]string {
	t.Helper()
	events := eventsOf(t, n, node.EventConfigDiffers)
	if len(events) != 1 {
		t.Fatalf("%s has events %v", n.Member.ID, events)
	}

	data := events[0].Metadata
	if data["member"] != member || data["key"] != d.key || data["addr"] != member+":1" ||
		!strings.Contains(data["error"], n.Member.ID) {
		t.Errorf("%s: %v", n.Member.ID, data)
	}

	h := n.Health()
	if len(h.Differs) != 1 || h.Differs[0].Key != d.key || (h.Checks["config"] != "ok") != d.fault {
		t.Errorf("%s has %+v, %v", n.Member.ID, h.Differs, h.Checks)
	}

	return data
}

func TestDifferences(t *testing.T) {
	t.Run("nodes_that_are_configured_differently_warn_on_both_sides", func(t *testing.T) {
		alike := facts(t, "secret", "cluster", "v1", 6*time.Second)
		late, ranked := regent.Cluster(), regent.Cluster()
		late.TakeoverDelay = 8 * time.Second
		ranked.Rank = regent.RankPriority
		for _, tt := range []difference{
			{"token", "set", "another one", true, facts(t, "Secret", "cluster", "v1", 6*time.Second)},
			{"token", "set", "none", true, facts(t, "", "cluster", "v1", 6*time.Second)},
			{"leaseDuration", "6s", "9s", true, facts(t, "secret", "cluster", "v1", 9*time.Second)},
			{"takeoverDelay", regent.Cluster().TakeoverDelay.String(), "8s", true,
				factsOf(t, "secret", "cluster", "v1", late)},
			{"rank", "first", "priority", true, factsOf(t, "secret", "cluster", "v1", ranked)},
			{"profile", "cluster", "fleet", true, facts(t, "secret", "fleet", "v1", 6*time.Second)},
			{"version", "v1", "v2", false, facts(t, "secret", "cluster", "v2", 6*time.Second)},
		} {
			t.Run(tt.key+"_"+tt.theirs, func(t *testing.T) {
				virtual.Test(t, func(t *testing.T) { tt.run(t, alike) })
			})
		}
	})

	t.Run("tokens_that_differ_are_not_named_as_values", func(t *testing.T) {
		digests := [3]string{"none", "1234", "5678"}
		for _, c := range []struct{ own, theirs, want string }{
			{digests[1], digests[2], "b has another token than a: each refuses what the other one sends"},
			{digests[1], digests[0], "b has no token, a has one: each refuses what the other one sends"},
			{digests[0], digests[2], "b has a token, a has none: each refuses what the other one sends"},
		} {
			view := regent.MemberView{ID: "b"}
			view.Facts = map[string]string{"token": c.theirs}
			found := node.Differences("a", map[string]string{"token": c.own}, view)
			if len(found) != 1 || found[0].Text != c.want {
				t.Errorf("%+v, want %q", found, c.want)
			}
		}
	})

	t.Run("the_published_digest_of_a_token_neither_shows_nor_confirms_it", func(t *testing.T) {
		published := func(token, election string) string {
			f, err := node.Facts(election, token, "cluster", "v1", regent.Cluster())
			if err != nil {
				t.Fatal(err)
			}
			return f["token"]
		}
		one := published("secret", "seat")
		if one != published("secret", "seat") {
			t.Error("the digest changes")
		}
		if one == published("Secret", "seat") || one == published("secret", "other") {
			t.Error("the digest does not depend on token and election")
		}
		if len(one) != 4 { // 16 bits: a guess that fits may still be wrong
			t.Errorf("%q has not 16 bits", one)
		}
		began := time.Now()
		for range 2 {
			published("secret", "seat")
		}
		if took := time.Since(began) / 2; took < time.Millisecond {
			t.Errorf("a guess costs no more than %v", took)
		}
		if published("", "seat") != "none" {
			t.Error("a node without a token has a digest")
		}
	})

	t.Run("a_node_whose_ID_is_taken_reports_by_whom_and_where", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			open := clients(memstore.New())
			mine := facts(t, "", "cluster", "v1", 6*time.Second)
			_, stopA := start(t, "twin", open("a"), mine, func(o *node.Options) { o.Addr = "10.0.0.1:7468" })
			time.Sleep(5 * time.Second)
			b, stopB := start(t, "twin", open("b"), mine, func(o *node.Options) { o.Addr = "10.0.0.2:7468" })
			time.Sleep(10 * time.Second)
			events := eventsOf(t, b, regent.EventMemberWaiting)
			if len(events) != 2 || events[0].Metadata["alive"] != "unknown" || events[1].Metadata["alive"] != "true" {
				t.Fatalf("events %v", events)
			}

			data := events[1].Metadata
			for _, part := range []string{
				`"twin"`, "10.0.0.1:7468", "host ", "pid ", "is alive", "stop it", "another ID",
			} {
				if !strings.Contains(data["error"], part) {
					t.Errorf("%q does not contain %q", data["error"], part)
				}
			}
			if data["addr"] != "10.0.0.1:7468" || data["pid"] == "" || data["host"] == "" {
				t.Errorf("%v", data)
			}
			if h := b.Health(); h.Checks["member"] != data["error"] {
				t.Errorf("checks %v", h.Checks)
			}
			if h := b.Health(); h.Role == node.Leader || h.Leader != "twin" || h.LeaderAddr != "10.0.0.1:7468" {
				t.Errorf("the other process leads, and this one says %+v", h)
			}

			stopA()
			time.Sleep(10 * time.Second)
			if h := b.Health(); h.Checks["member"] != "ok" || h.Role != node.Leader {
				t.Errorf("%+v", h)
			}
			stopB()
		})
	})
}
