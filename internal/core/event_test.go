package core

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// TestEventKinds has every kind of event that the regent package lists sent by a core, with the metadata and the
// measurements that people know; or says that the shell sends it.
func TestEventKinds(t *testing.T) {
	const shell = "" // it has seen what the core has not: the duty, the health check, the observer, the loop
	kinds := map[EventKind]struct {
		metadata     string
		measurements string
		happen       func(*testing.T) *rig
	}{
		EventBecameLeader: {"previous_leader previous_reason term", "vacantMs", func(t *testing.T) *rig {
			r := watching(t, clusterConfig())
			r.run(10 * time.Second)
			return r
		}},
		EventLostLeadership: {"reason", "", func(t *testing.T) *rig {
			r := newRig(t, clusterConfig())
			b := r.lead()
			r.step(StepDown{ID: 1, Election: election1})
			r.step(DutyStopped{election1, b.Epoch})
			r.serve()
			return r
		}},
		EventLeaderChanged: {"new_leader previous_leader previous_reason term", "", func(t *testing.T) *rig {
			return watching(t, clusterConfig())
		}},
		EventContention: {"", "durationMs expectedMs ratio", func(t *testing.T) *rig {
			cfg := lockConfig()
			cfg.ContentionThreshold = 1.1
			r := newRig(t, cfg)
			r.lead()
			slowBeats(r, 1, 1700*time.Millisecond)
			return r
		}},
		EventRegressed: {"error", "", func(t *testing.T) *rig {
			r := watching(t, clusterConfig())
			delete(r.store, election1)
			r.run(10 * time.Second)
			return r
		}},
		EventUnreadable: {"error register", "", func(t *testing.T) *rig {
			r := newRig(t, clusterConfig())
			r.put(driver.Record{Name: election1, Epoch: maxEpoch, Nonce: 1})
			r.start()
			r.serve()
			return r
		}},
		EventStarted: {"", "waitedMs", func(t *testing.T) *rig {
			cfg := clusterConfig()
			cfg.StartDelayMax = 5 * time.Second
			cfg.StartDelay = 2 * time.Second
			r := newRig(t, cfg)
			r.start()
			r.run(3 * time.Second)
			equal(t, "waited", r.event(EventStarted).Took, 2*time.Second)
			return r
		}},
		EventJoined: {"incarnation", "", func(t *testing.T) *rig {
			r := newRig(t, clusterConfig())
			r.lead()
			return r
		}},
		EventLeft: {"incarnation", "", func(t *testing.T) *rig {
			r := newRig(t, clusterConfig())
			b := r.lead()
			r.step(Close{})
			r.step(DutyStopped{election1, b.Epoch})
			r.serve()
			return r
		}},
		EventDropped: {"error incarnation reason", "", func(t *testing.T) *rig {
			r := newRig(t, clusterConfig())
			r.lead()
			r.pass(10 * time.Second)
			return r
		}},
		EventWaiting: {"alive incarnation", "", func(t *testing.T) *rig {
			r := newRig(t, clusterConfig())
			r.put(beating(driver.Identity{ID: "a", Incarnation: "1.twin"}, 77))
			r.start()
			r.serve()
			return r
		}},
		EventRetired: {"register", "", func(t *testing.T) *rig {
			r := newRig(t, restingConfig())
			r.put(driver.Record{Name: election1, Epoch: 5, Nonce: 9, Duration: time.Second})
			r.step(Join{})
			r.step(Retire{ID: 1, Register: election1})
			r.run(11 * time.Minute)
			return r
		}},
		EventDutyStuck: {"reason", "", func(t *testing.T) *rig {
			r := newRig(t, clusterConfig())
			r.lead()
			r.step(StepDown{ID: 1, Election: election1})
			r.run(2 * time.Second)
			return r
		}},
		"duty:failed":           {metadata: shell},
		"candidate:restarted":   {metadata: shell},
		"member:health_changed": {metadata: shell},
		"observer:panicked":     {metadata: shell},
	}

	source, err := os.ReadFile("../../event.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`Event\w+\s+EventKind = "(\w+:\w+)"`).FindAllStringSubmatch(string(source), -1)
	equal(t, "kinds", len(kinds), len(listed))
	for _, m := range listed {
		kind := EventKind(m[1])
		t.Run(m[1], func(t *testing.T) {
			k, ok := kinds[kind]
			if !ok {
				t.Fatal("nobody sends it")
			}
			if k.happen == nil {
				return
			}
			e := k.happen(t).event(kind)
			equal(t, "metadata", keys(e.Metadata()), k.metadata)
			equal(t, "measurements", keys(e.Measurements()), k.measurements)
		})
	}
}

func keys[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), " ") }

// slowBeats lets heartbeats of a lock be answered late, one after the other.
func slowBeats(r *rig, n int, late time.Duration) {
	r.t.Helper()
	for range n {
		s := r.until(election1)
		r.now = r.now.Add(late / 2)
		r.answer(s, Unknown, driver.Record{})
		read := r.take(election1)
		_, rec := r.apply(s)
		r.now = r.now.Add(late / 2)
		r.answer(read, Done, rec)
	}
}

// until lets time pass until a register is written, and returns that request. All others are dropped.
func (r *rig) until(name string) Send {
	r.t.Helper()
	for range 1000 {
		for len(r.pending) > 0 {
			s := r.pending[0]
			r.pending = r.pending[1:]
			if s.Verb == Swap && s.Record.Name == name {
				return s
			}
		}
		r.pass(time.Duration(max(1, r.c.Next()-r.now)))
	}
	r.t.Fatalf("%s is not written", name)
	return Send{}
}

func TestEventDetails(t *testing.T) {
	t.Run("another_process_with_this_id_is_told_once_and_once_more_when_it_is_known_to_live", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		twin := beating(driver.Identity{ID: "a", Incarnation: "1.twin"}, 77)
		twin.Addr = "host:1"
		r.put(twin)
		r.start()
		r.run(4 * time.Second)
		equal(t, "events", r.count(EventWaiting), 1)
		e := r.event(EventWaiting)
		equal(t, "alive", e.Metadata()["alive"], "unknown")
		equal(t, "addr", e.Other.Addr, "host:1")
		_, alive, blocked := r.c.Blocked()
		equal(t, "blocked", blocked, true)
		equal(t, "alive", alive, false)

		for range 3 {
			twin.Nonce++
			r.put(twin)
			r.run(2 * time.Second)
		}
		equal(t, "events", r.count(EventWaiting), 2)
		equal(t, "alive", every[Event](r)[1].Metadata()["alive"], "true")
		_, alive, _ = r.c.Blocked()
		equal(t, "alive", alive, true)

		r.run(10 * time.Second)
		r.event(EventJoined)
		_, _, blocked = r.c.Blocked()
		equal(t, "blocked", blocked, false)
	})

	t.Run("the_next_process_with_this_id_is_not_known_to_live", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		twin := beating(driver.Identity{ID: "a", Incarnation: "1.twin"}, 77)
		r.put(twin)
		r.start()
		r.run(time.Second)
		twin.Nonce++
		r.put(twin)
		r.run(2 * time.Second)
		twin.Holder.Incarnation = "2.twin"
		r.put(twin)
		r.run(2 * time.Second)
		all := every[Event](r)
		equal(t, "events", len(all), 3)
		equal(t, "alive", all[2].Alive, false)
		_, alive, _ := r.c.Blocked()
		equal(t, "alive", alive, false)
	})

	t.Run("a_leader_that_tells_for_another_says_so", func(t *testing.T) {
		e := Event{Kind: EventLostLeadership, Node: "b", ReportedBy: "a", Reason: ReasonDied}
		equal(t, "metadata", keys(e.Metadata()), "reason reported_by")
	})

	t.Run("a_first_leader_measures_no_vacancy", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.lead()
		e := r.event(EventBecameLeader)
		equal(t, "measurements", len(e.Measurements()), 0)
	})

	t.Run("a_dropped_member_says_what_it_has_met", func(t *testing.T) {
		for want, lose := range map[string]func(*rig){
			"lost lease: " + own + " now shows nobody": func(r *rig) {
				gone := r.store[own]
				gone.Holder = driver.Identity{}
				r.put(gone)
				r.run(3 * time.Second)
			},
			"lost lease: the store no longer has " + own + " (was it flushed or deleted?)": func(r *rig) {
				delete(r.store, own)
				r.run(3 * time.Second)
			},
			"partition: 4 tries failed, the last with: heartbeat: refused; and read: refused": func(r *rig) {
				for range 60 {
					r.pass(100 * time.Millisecond)
					for len(r.pending) > 0 {
						s := r.pending[0]
						r.pending = r.pending[1:]
						r.step(Answer{ID: s.ID, Error: "refused"})
					}
				}
			},
			"partition: no heartbeat was confirmed in time": func(r *rig) { r.pass(10 * time.Second) },
		} {
			cfg := clusterConfig()
			cfg.RenewBackoff = []time.Duration{time.Second, time.Second, 100 * time.Millisecond}
			r := newRig(t, cfg)
			r.lead()
			lose(r)
			e := r.event(EventDropped)
			equal(t, "error", e.Error, want)
			end := find[End](r)
			equal(t, "detail", string(end.Cause)+": "+end.Detail, want)
			var lost Renewed
			for _, n := range every[Renewed](r) {
				if n.Cause != "" {
					lost = n
				}
			}
			equal(t, "detail", string(lost.Cause)+": "+lost.Detail, want)
		}
	})

	t.Run("a_lost_lock_says_what_it_has_met", func(t *testing.T) {
		for want, lose := range map[string]func(*rig){
			"lost lease: e now shows b/1.x in epoch 2": func(r *rig) { r.put(held(other, 2, "")) },
			"lost lease: the store no longer has e (was it flushed or deleted?)": func(r *rig) {
				delete(r.store, election1)
			},
			"lost lease: e shows a heartbeat that this process did not send, or an older one " +
				"(has the store lost writes?)": func(r *rig) {
				rec := r.store[election1]
				rec.Nonce = 4711
				r.put(rec)
			},
		} {
			r := newRig(t, lockConfig())
			r.lead()
			lose(r)
			r.run(2 * time.Second)
			end := find[End](r)
			equal(t, "detail", string(end.Cause)+": "+end.Detail, want)
		}
	})

	t.Run("a_term_that_the_shell_has_ended_or_that_was_not_renewed_says_so", func(t *testing.T) {
		const want = "no heartbeat was confirmed in time"
		for _, cfg := range []Config{lockConfig(), clusterConfig()} {
			r := newRig(t, cfg)
			b := r.lead()
			r.step(Expired{b.Register, b.Incarnation})
			equal(t, "detail", find[End](r).Detail, want)

			r = newRig(t, cfg)
			r.lead()
			r.pass(10 * time.Second)
			equal(t, "detail", find[End](r).Detail, want)
		}
		r := newRig(t, clusterConfig())
		b := r.lead()
		r.c.member.beat.why = want
		r.c.dropMember(Partitioned)
		r.step(DutyStopped{election1, b.Epoch}) // before its turn has come
		equal(t, "detail", find[End](r).Detail, want)
	})

	t.Run("a_store_that_has_gone_back_is_described", func(t *testing.T) {
		r := watching(t, lockConfig())
		r.replace(driver.Record{Name: election1, Epoch: 1, Nonce: 5, Duration: 6 * time.Second})
		equal(t, "error", r.event(EventRegressed).Error, "e shows epoch 1, but epoch 3 was seen before"+lostWrites)

		r = watching(t, lockConfig())
		r.replace(held(driver.Identity{ID: "c", Incarnation: "1.c"}, 3, ""))
		equal(t, "error", r.event(EventRegressed).Error,
			"e shows that c had epoch 3, but b was seen to hold it"+lostWrites)

		r = newRig(t, clusterConfig())
		r.put(held(driver.Identity{ID: "b", Incarnation: "3.z"}, 5, remote))
		r.put(driver.Record{Name: remote, Epoch: 2, Nonce: 60, Duration: 6 * time.Second})
		r.start()
		r.run(time.Second)
		equal(t, "error", r.event(EventRegressed).Error, remote+" does not know b/3.z, which holds e"+lostWrites)
	})

	t.Run("a_register_that_cannot_be_read_is_reported_with_what_the_store_says", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.step(Campaign{"broken"})
		r.start()
		for range 200 {
			for len(r.pending) > 0 {
				s := r.pending[0]
				r.pending = r.pending[1:]
				o, rec := r.apply(s)
				if s.Record.Name == "broken" {
					r.step(Answer{ID: s.ID, Error: "no such codec"})
					continue
				}
				r.answer(s, o, rec)
			}
			r.pass(100 * time.Millisecond)
		}
		e := r.event(EventUnreadable)
		equal(t, "error", e.Metadata()["error"], "no such codec")
	})
}

func TestStats(t *testing.T) {
	t.Run("heartbeats_are_counted_with_their_latency", func(t *testing.T) {
		for name, cfg := range map[string]Config{"own": lockConfig(), "member": clusterConfig()} {
			r := newRig(t, cfg)
			r.lead()
			register := own
			if cfg.OwnLease {
				register = election1
			}
			equal(t, name, r.c.Stats().Heartbeats, 0)
			for range 3 {
				s := r.until(register)
				r.now = r.now.Add(10 * time.Millisecond)
				o, rec := r.apply(s)
				r.answer(s, o, rec)
				r.pending = nil
				r.step(Notice{driver.Record{Name: election1}}) // whatever else is read is no heartbeat
				r.pass(30 * time.Millisecond)
				r.serve()
			}
			got := r.c.Stats()
			equal(t, name, got.Heartbeats, 3)
			equal(t, name, got.HeartbeatTime, 30*time.Millisecond)
			equal(t, name, got.Latencies[2], 10*time.Millisecond)
			equal(t, name, got.Latencies[3], 0)
			equal(t, name, got.Transitions, 1)
		}
	})

	t.Run("failures_are_counted", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.lead()
		for range 2 {
			r.pass(1500 * time.Millisecond)
			for len(r.pending) > 0 {
				r.answer(r.take(election1), Unknown, driver.Record{})
			}
		}
		equal(t, "failures", r.c.Stats().RenewFailures, 2)

		r = newRig(t, clusterConfig())
		r.start()
		r.answer(r.take(own), Unknown, driver.Record{})
		equal(t, "failures to join", r.c.Stats().RenewFailures, 1)
	})

	t.Run("contention_is_counted_and_told_at_most_every_30_s", func(t *testing.T) {
		for _, threshold := range []float64{0, 1.1, 3} {
			cfg := lockConfig()
			cfg.ContentionThreshold = threshold
			r := newRig(t, cfg)
			r.lead()
			slowBeats(r, 3, 1700*time.Millisecond)
			want := 0
			if threshold == 1.1 {
				want = 1
			}
			equal(t, "events", r.count(EventContention), want)
			equal(t, "counted", r.c.Stats().Contention, uint64(3*want))
			if want == 1 {
				e := r.event(EventContention)
				equal(t, "expected", e.Expected, 1500*time.Millisecond)
				equal(t, "took", e.Took, 1700*time.Millisecond)
				r.run(30 * time.Second)
				slowBeats(r, 1, 1700*time.Millisecond)
				equal(t, "events", r.count(EventContention), 2)
			}
		}
	})
}
