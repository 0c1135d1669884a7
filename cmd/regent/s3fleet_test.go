package main

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFleetOnS3 is fleets of real processes that share nothing but a bucket. What they send is known from a log before
// the server.
func TestFleetOnS3(t *testing.T) {
	s := startS3(t)

	t.Run("five_nodes_with_defaults", func(t *testing.T) {
		t.Parallel()
		testFiveOnS3(t, s)
	})
	t.Run("twenty_nodes_over_15s", func(t *testing.T) {
		t.Parallel()
		testTwentyOnS3(t, s)
	})
	t.Run("jitter", func(t *testing.T) {
		t.Parallel()
		testJitterOnS3(t, s)
	})
	t.Run("polls_and_workers", func(t *testing.T) {
		t.Parallel()
		testWorkersOnS3(t, s)
	})
	t.Run("takeover_delay", func(t *testing.T) {
		t.Parallel()
		testTakeoverDelayOnS3(t, s)
	})
}

// testFiveOnS3 runs five nodes without any configuration, restarts them all, and then five without jitter.
func testFiveOnS3(t *testing.T, s *s3Server) {
	f := newS3Fleet(t, s, 5)
	delay := watchMachine()
	f.start()
	first := f.term(1)
	elected := first.came.Sub(f.began[2]) // which was started first

	f.step(t, "J01_no_node_connects_before_its_wait_of_0_to_5s", func(t *testing.T) {
		shortest := time.Hour
		for k, d := range f.nodes {
			f.jittered(k, 0, 5*time.Second)
			shortest = min(shortest, f.began[k].Add(d.waited()).Sub(f.began[2]))
		}
		if dialed := f.log.firstDial(time.Time{}).Sub(f.began[2]); dialed < shortest {
			t.Errorf("somebody connected after %v, and nobody says that it waited less than %v", dialed, shortest)
		}
	})

	f.step(t, "J14_nobody_has_configured_a_profile_or_jitter", func(t *testing.T) {
		for _, d := range f.nodes {
			d.await("msg=serving.*profile=fleet")
			d.await("member:started.* waitedMs=0*[.1-9]")
		}
	})

	f.step(t, "J15_the_smallest_ID_leads", func(t *testing.T) {
		f.smallest(t, first, delay())
	})

	f.step(t, "C10_one_node_has_won_and_all_others_name_it", func(t *testing.T) {
		if n := len(f.log.terms("coordinator")); n != 1 {
			t.Errorf("%d terms have begun", n)
		}
		for _, d := range f.nodes {
			if d.serves(); d.name != first.record.Holder {
				if body := d.until("/standby", http.StatusOK); body["leader"] != first.record.Holder {
					t.Errorf("%s says %v", d.name, body)
				}
			}
		}
	})

	f.step(t, "each_node_counts_its_requests_and_shows_no_secret", func(t *testing.T) {
		for _, d := range f.nodes {
			metrics := d.text("/metrics")
			ops := []string{"get", "put"}
			if d.name == first.record.Holder { // another may have had no reason to list the members
				ops = append(ops, "list")
			}
			for _, op := range ops {
				counted := regexp.MustCompile(`(?m)^regent_store_requests_total\{op="` + op + `"\} [1-9]`)
				if !counted.MatchString(metrics) {
					t.Errorf("%s counts no requests of kind %s", d.name, op)
				}
			}
			if said := d.said(s3Secret); len(said) > 0 || strings.Contains(metrics, s3Secret) {
				t.Errorf("%s shows its secret: %q", d.name, said)
			}
		}
	})

	from := time.Now()
	f.step(t, "J08_heartbeats_come_every_5s_without_jitter", func(t *testing.T) {
		f.steady(t, 5*time.Second, 4, f.nodes...)
	})
	f.step(t, "it_sends_as_many_requests_as_docs_STORES_computes", func(t *testing.T) { f.asComputed(t, from) })

	var second s3Request
	f.step(t, "C07_after_a_kill_another_leads_and_all_follow", func(t *testing.T) {
		second, _ = f.killLeader(first)
	})

	f.step(t, "C09_J10_the_killed_node_waits_again_at_its_start_and_stays_standby", func(t *testing.T) {
		k := slices.IndexFunc(f.nodes, func(d *daemon) bool { return d.name == first.record.Holder })
		f.launch(k)
		f.jittered(k, 0, 5*time.Second)
		f.nodes[k].await(`leader changed.*new_leader=` + second.record.Holder + `( |$)`)

		// It has polled the election again, and had the time to claim it.
		from := time.Now()
		waitFor(t, "it has sent three more heartbeats", func() bool {
			beats := f.log.heartbeats(f.nodes[k].name)
			return slices.IndexFunc(beats, func(r s3Request) bool { return r.came.After(from) }) >= 0 &&
				len(beats)-slices.IndexFunc(beats, func(r s3Request) bool { return r.came.After(from) }) >= 3
		})
		if n := len(f.log.terms("coordinator")); n != 2 {
			t.Errorf("%d terms have begun, want 2", n)
		}
	})

	f.step(t, "J15_after_a_restart_of_all_over_the_used_bucket_the_smallest_ID_leads", func(t *testing.T) {
		f.stop()
		before := len(f.log.terms("coordinator"))
		delay := watchMachine()
		f.start()
		again := f.term(before + 1)
		f.smallest(t, again, delay())
	})
	f.stop()

	t.Run("J12_five_nodes_without_jitter_start_at_once_and_elect_faster", func(t *testing.T) {
		g := newS3Fleet(t, s, 5, "--startup-jitter-max", "0")
		delay := watchMachine()
		g.start()
		took := g.term(1).came.Sub(g.began[2])
		t.Logf("elected after %v, with jitter after %v", took, elected)
		if late := delay(); took >= elected && late < time.Second {
			t.Errorf("elected after %v, with jitter after %v", took, elected)
		}
		for _, d := range g.nodes {
			if said := d.said("member:started"); len(said) > 0 {
				t.Errorf("%s waited: %q", d.name, said)
			}
		}
		g.stop()
	})
}

// testTwentyOnS3 is the short form of what a fleet of 200 does in TestLargeFleetOnS3.
func testTwentyOnS3(t *testing.T, s *s3Server) {
	const half = 30 // seconds
	f := newS3Fleet(t, s, 20, "--startup-jitter-max", "15s")
	f.next = true
	// The fleet is young: whoever the new leader has not heard of yet watches again within three leases.
	f.follow = 90 * time.Second
	f.start()
	term := f.term(1)

	f.step(t, "J11_J13_requests_are_spread", func(t *testing.T) {
		for k := range f.nodes {
			f.jittered(k, 0, 15*time.Second)
		}
		<-time.After(time.Until(f.began[10].Add((half + 1) * time.Second)))
		if _, err := f.log.spread(f.began[10], half); err != nil {
			t.Log(err) // twenty vary by chance; TestLargeFleetOnS3 must not
		}
	})

	f.step(t, "the_race_that_checks_the_server_is_spread_over_20s", func(t *testing.T) {
		const writes = 1 + 6*32
		var race []s3Request
		waitFor(t, "the race has ended", func() bool {
			race = f.log.requests(func(r s3Request) bool {
				return r.method == http.MethodPut && strings.Contains(r.key, "/!probe/") &&
					!strings.Contains(r.key, "result")
			})
			return len(race) == writes
		})
		if took := race[writes-1].came.Sub(race[0].came); took < 15*time.Second {
			t.Errorf("it took %v", took)
		}
	})

	f.step(t, "C07_C10_after_each_of_two_kills_one_node_leads_and_all_follow", func(t *testing.T) {
		for range 2 {
			term, _ = f.killLeader(term)
		}
	})
	f.stop()
}
