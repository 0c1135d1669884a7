package core

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

func TestSave(t *testing.T) {
	t.Run("writes_under_the_term_and_gives_no_time", func(t *testing.T) {
		for name, cfg := range map[string]Config{"own": lockConfig(), "member": clusterConfig()} {
			r := newRig(t, cfg)
			b := r.lead()
			nonce := r.store[election1].Nonce
			r.forget()
			r.step(Save{ID: 7, Election: election1, Epoch: b.Epoch, Data: []byte("x")})
			r.serve()
			equal(t, name, find[Result](r), Result{ID: 7, Result: OK, Epoch: b.Epoch})
			equal(t, name, string(r.store[election1].Data), "x")
			equal(t, name, r.store[election1].Nonce, nonce)
			equal(t, name, len(every[Renewed](r)), 0)
		}
	})

	t.Run("of_another_epoch_is_refused", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.lead()
		r.step(Save{ID: 7, Election: election1, Epoch: 9, Data: []byte("x")})
		equal(t, "result", find[Result](r).Result, NotLeader)
	})

	t.Run("of_unknown_outcome_is_settled_by_a_read", func(t *testing.T) {
		for _, applied := range []bool{true, false} {
			r := newRig(t, lockConfig())
			b := r.lead()
			r.forget()
			r.step(Save{ID: 7, Election: election1, Epoch: b.Epoch, Data: []byte("x")})
			s := r.take(election1)
			if applied {
				r.apply(s)
			}
			r.answer(s, Unknown, driver.Record{})
			r.serve()
			want := OutcomeUnknown
			if applied {
				want = OK
			}
			equal(t, "result", find[Result](r).Result, want)
		}
	})

	t.Run("that_meets_an_edit_is_written_again", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		b := r.lead()
		edited := r.store[election1]
		edited.Paused = true
		edited.Edits++
		r.put(edited)
		r.forget()
		r.step(Save{ID: 7, Election: election1, Epoch: b.Epoch, Data: []byte("x")})
		r.serve()
		equal(t, "result", find[Result](r).Result, OK)
		equal(t, "paused", r.store[election1].Paused, true)
	})

	t.Run("that_meets_another_holder_ends_the_term", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		b := r.lead()
		r.put(held(other, b.Epoch+1, remote))
		r.forget()
		r.step(Save{ID: 7, Election: election1, Epoch: b.Epoch, Data: []byte("x")})
		r.serve()
		equal(t, "cause", find[End](r).Cause, Lost)
		equal(t, "data", len(r.store[election1].Data), 0)
	})
}

func TestRequestsToOthers(t *testing.T) {
	t.Run("a_handoff_edits_the_record_and_touches_the_heartbeat_of_the_leader", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(beating(other, 50))
		r.put(held(other, 3, remote))
		r.start()
		r.run(time.Second)
		r.step(HandOff{ID: 8, Election: election1, To: "a", AtEpoch: 3})
		r.serve()
		equal(t, "result", find[Result](r), Result{ID: 8, Result: OK, Epoch: 3})
		equal(t, "next", r.store[election1].Next, "a")
		equal(t, "nonce", r.store[election1].Nonce, 9003)
		equal(t, "edits", r.store[remote].Edits, 1)
	})

	t.Run("each_request_ends_in_its_own_time", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(beating(other, 50))
		r.put(held(other, 3, remote))
		r.start()
		r.run(time.Second)
		s := r.c.sightOf(remote)
		s.pokes = []poke{{holder: other, until: r.now.Add(time.Hour)}} // as callMember does, which came first
		s.pokes = append(s.pokes, poke{id: 8, epoch: 3, holder: other, until: r.now.Add(time.Minute)})
		r.c.enqueue(s.ref)
		r.step(Tick{})
		for range 130 { // nothing is answered any more
			r.now = r.now.Add(500 * time.Millisecond)
			r.step(Tick{})
		}

		equal(t, "result", find[Result](r), Result{ID: 8, Result: Unanswered, Epoch: 3})
	})

	t.Run("a_write_serves_all_who_waited_for_it_and_nobody_who_came_later", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(beating(other, 50))
		r.put(held(other, 3, remote))
		r.start()
		r.run(time.Second)
		asked := poke{epoch: 3, holder: other, until: r.now.Add(time.Minute)}
		s := r.c.sightOf(remote)
		for id := range uint64(2) {
			asked.id = id + 1
			s.pokes = append(s.pokes, asked)
		}

		r.c.enqueue(s.ref)
		r.step(Tick{})
		write := r.take(remote)
		asked.id = 3
		s.pokes = append(s.pokes, asked)
		o, rec := r.apply(write)
		r.answer(write, o, rec)
		equal(t, "results", len(every[Result](r)), 2)
		r.serve()
		equal(t, "results", len(every[Result](r)), 3)
		equal(t, "writes", r.store[remote].Edits, 2)
	})

	t.Run("the_successor_reads_before_the_reservation_ends", func(t *testing.T) {
		r := newRig(t, lockConfig())
		asked := held(other, 3, "")
		asked.Next = "a"
		r.put(asked)
		r.start()
		r.run(100 * time.Millisecond)
		released := r.store[election1]
		vacant := vacated(&released, 80, time.Time{}, string(HandedOff))
		vacant.Next = "a"
		r.put(vacant)
		r.run(500 * time.Millisecond) // a third of a heartbeat interval; no notification came
		equal(t, "epoch", find[Begin](r).Epoch, 4)
	})

	t.Run("a_reservation_counts_anew_in_another_term", func(t *testing.T) {
		cfg := clusterConfig()
		cfg.CheckHealth = true
		r := newRig(t, cfg)
		vacant := driver.Record{Name: election1, Epoch: 3, Nonce: 80, Next: "c", Duration: 6 * time.Second}
		r.put(vacant)
		r.start()
		r.run(4 * time.Second)
		vacant.Epoch = 4 // somebody else has held it meanwhile, for a moment
		vacant.Nonce = 81
		r.step(Notice{r.put(vacant)})
		r.serve()
		r.step(Health{Healthy: true})
		r.run(1400 * time.Millisecond)
		equal(t, "terms", len(every[Begin](r)), 0)
		r.run(200 * time.Millisecond)
		equal(t, "epoch", find[Begin](r).Epoch, 5)
	})

	t.Run("a_reservation_counts_from_the_release_that_makes_it", func(t *testing.T) {
		for _, asked := range []string{"", "c"} { // whether or not the holder had been asked for it before it died
			cfg := clusterConfig()
			cfg.CheckHealth = true // so that a free election is not claimed at once
			r := newRig(t, cfg)
			again := beating(driver.Identity{ID: "b", Incarnation: "2.y"}, 50)
			again.Epoch = 2
			r.put(again)
			dead := held(other, 3, remote)
			dead.Next = asked
			dead = r.put(dead)
			r.start()
			r.run(4 * time.Second) // it has been free all the time
			vacant := vacated(&dead, 80, time.Time{}, string(HandedOff))
			vacant.Next = "c"
			r.step(Notice{r.put(vacant)})
			r.serve()
			r.step(Health{Healthy: true})
			r.run(1400 * time.Millisecond)
			equal(t, "terms", len(every[Begin](r)), 0)
			r.run(200 * time.Millisecond)
			equal(t, "epoch", find[Begin](r).Epoch, 4)
		}
	})

	t.Run("conditions_are_checked_on_the_record", func(t *testing.T) {
		for name, c := range map[string]struct {
			rec  driver.Record
			in   Input
			want ResultCode
		}{
			"epoch":   {held(other, 3, ""), StepDown{8, election1, 2}, Moved},
			"nobody":  {driver.Record{Name: election1, Epoch: 2, Nonce: 1}, StepDown{8, election1, 0}, NobodyLeads},
			"already": {held(other, 3, ""), HandOff{8, election1, "b", 0}, LeadsAlready},
			"pause":   {held(other, 3, ""), Pause{8, election1, 0}, OK},
		} {
			cfg := lockConfig()
			cfg.Eligible = false
			r := newRig(t, cfg)
			r.put(c.rec)
			r.step(Join{})
			r.step(c.in)
			r.serve()
			equal(t, name, find[Result](r).Result, c.want)
		}
	})

	t.Run("a_paused_election_is_not_claimed_until_it_is_resumed", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.step(Join{})
		r.step(Pause{8, election1, 0})
		r.serve()
		r.step(Campaign{election1})
		r.run(20 * time.Second)
		equal(t, "terms", len(every[Begin](r)), 0)
		r.step(Resume{9, election1, 0})
		r.run(time.Second)
		equal(t, "epoch", find[Begin](r).Epoch, 1)
	})
}

func TestRequestsToThisLeader(t *testing.T) {
	t.Run("one_whose_edit_is_under_way_when_its_time_is_up_waits_for_that_alone", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.start()
		r.step(Pause{ID: 8, Election: election1})
		up := r.now.Add(askTimeouts * r.c.timeout)
		last := func() Send { return r.pending[len(r.pending)-1] }
		for up.Add(-time.Second) > r.now || last().Record.Name != election1 || !r.c.Awaits(last().ID) {
			r.pass(10 * time.Millisecond) // nothing is answered
		}
		r.answer(last(), NotFound, driver.Record{})
		equal(t, "verb", last().Verb, Swap)
		r.forget()
		r.pass(time.Duration(up-r.now) + 100*time.Millisecond) // fails if the core has itself called again and again
		equal(t, "results", len(every[Result](r)), 0)
	})

	t.Run("one_that_the_store_does_not_take_ends_although_the_record_cannot_be_read", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.lead()
		r.forget()
		r.step(Pause{ID: 8, Election: election1})
		for range 12 {
			r.pass(time.Second)
			for len(r.pending) > 0 { // heartbeats are answered, and nothing else is
				s := r.pending[0]
				r.pending = r.pending[1:]
				if s.Record.Name == own {
					o, rec := r.apply(s)
					r.answer(s, o, rec)
				}
			}
		}
		equal(t, "result", find[Result](r).Result, Unanswered)
	})

	t.Run("are_met_by_the_next_heartbeat", func(t *testing.T) {
		for name, cfg := range map[string]Config{"own": lockConfig(), "member": clusterConfig()} {
			r := newRig(t, cfg)
			r.lead()
			r.run(3200 * time.Millisecond) // between two of the reads that come every half lease
			asked := r.store[election1]
			asked.Next = "b"
			asked.Edits++
			r.put(asked)
			if touched, ok := r.store[own]; ok {
				touched.Edits++
				r.put(touched)
			}
			r.forget()
			r.run(1400 * time.Millisecond)
			end := find[End](r)
			equal(t, name, end.Cause, HandedOff)
			equal(t, name, end.Next, "b")
		}
	})

	t.Run("whoever_has_stepped_down_lets_others_have_a_chance", func(t *testing.T) {
		r := newRig(t, lockConfig())
		b := r.lead()
		r.step(StepDown{ID: 5, Election: election1})
		r.step(DutyStopped{election1, b.Epoch})
		r.forget()
		r.run(6400 * time.Millisecond) // the election interval and a heartbeat
		equal(t, "terms", len(every[Begin](r)), 0)
		r.run(200 * time.Millisecond)
		equal(t, "epoch", find[Begin](r).Epoch, b.Epoch+1)
	})

	t.Run("a_term_that_a_fence_refused_is_followed_by_one_beyond_what_the_fence_has_seen", func(t *testing.T) {
		r := newRig(t, lockConfig())
		b := r.lead()
		r.forget()
		r.step(Fenced{Election: election1, Epoch: b.Epoch, Newest: b.Epoch + 9})
		equal(t, "cause", find[End](r).Cause, FencedOff)
		r.step(DutyStopped{election1, b.Epoch})
		r.run(7 * time.Second) // the store shows less than was seen: it is waited for
		equal(t, "epoch", find[Begin](r).Epoch, b.Epoch+10)
	})

	t.Run("terms_that_fences_refuse_follow_each_other_slowly", func(t *testing.T) {
		r := newRig(t, lockConfig())
		b := r.lead()
		for i, wait := range []time.Duration{0, time.Second, 2 * time.Second} {
			began := r.now
			r.forget()
			r.step(Fenced{Election: election1, Epoch: b.Epoch, Newest: b.Epoch}) // another term has the same one
			r.step(DutyStopped{election1, b.Epoch})
			r.run(5 * time.Second)
			next := find[Begin](r)
			sent := next.Deadline - Time(r.c.cfg.trust(6*time.Second))
			equal(t, fmt.Sprint("wait before term ", i), time.Duration(sent-began), wait)
			b = next
		}
	})
}

// TestReplay shows that a core is determined by its inputs, and that a clone goes on alike and alone.
func TestReplay(t *testing.T) {
	script := func() (*rig, []string) {
		r := newRig(t, clusterConfig())
		r.put(beating(other, 50))
		r.put(held(other, 3, remote))
		r.start()
		r.run(20 * time.Second)
		return r, strings.Split(r.list(), "\n")
	}
	r, first := script()
	_, second := script()
	equal(t, "effects", strings.Join(first, "\n"), strings.Join(second, "\n"))

	before := r.c.Encode(nil, r.now, plain{})
	clone := r.c.Clone(&counter{last: 1000})
	clone.Step(r.now.Add(time.Hour), Tick{})
	if !bytes.Equal(before, r.c.Encode(nil, r.now, plain{})) {
		t.Fatal("a step of the clone has changed the original")
	}
}

// plain maps names to themselves.
type plain struct{}

func (plain) Rev(rev string) uint64                  { return uint64(len(rev)) }
func (plain) Nonce(nonce uint64) uint64              { return nonce }
func (plain) Incarnation(name string, _ bool) uint64 { return uint64(len(name)) }
func (plain) Epoch(_ string, epoch uint64) uint64    { return epoch }

// TestPortions shows that no step does everything at once, however many elections there are.
func TestPortions(t *testing.T) {
	r := newRig(t, lockConfig())
	const many = 10 * portion
	for i := range many {
		r.step(Campaign{fmt.Sprint("election ", i)})
	}
	r.step(Join{})
	if n := len(r.pending); n == 0 || n > portion {
		t.Fatalf("the first step sends %d requests, want at most %d", n, portion)
	}
	r.run(time.Second)
	equal(t, "terms", len(every[Begin](r)), many)
}

// TestRulesAreMarked keeps the promise of the package comment: each rule is found by its number.
func TestRulesAreMarked(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	marked := map[string]bool{}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(b, []byte("\n")); n > 300 && !strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s has %d lines, at most 300 are allowed", name, n)
		}
		if strings.HasSuffix(name, "_test.go") || name == "doc.go" {
			continue
		}
		for _, m := range regexp.MustCompile(`rule (\d+)`).FindAllSubmatch(b, -1) {
			marked[string(m[1])] = true
		}
	}
	for rule := 1; rule <= 13; rule++ {
		if !marked[fmt.Sprint(rule)] {
			t.Errorf("rule %d is marked nowhere", rule)
		}
	}
}
