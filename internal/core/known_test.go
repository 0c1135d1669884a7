package core

import (
	"strconv"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// returned makes the core lead once, and release because the duty has returned.
func (r *rig) returned() {
	r.t.Helper()
	b := r.lead()
	r.step(DutyStopped{election1, b.Epoch})
	r.step(Withdraw{election1})
	r.serve()
	r.forget()
}

// again makes the core campaign again, and returns the verb of the first request about the election.
func (r *rig) again() Verb {
	r.t.Helper()
	r.step(Campaign{election1})
	for i := range r.pending {
		if r.pending[i].Record.Name == election1 {
			return r.pending[i].Verb
		}
	}

	r.t.Fatalf("no request about the election: %s", r.list())
	return 0
}

func TestClaimWithoutRead(t *testing.T) {
	for name, cfg := range map[string]Config{"own_lease": lockConfig(), "heartbeat": clusterConfig()} {
		t.Run("a_term_after_a_release_takes_two_requests_"+name, func(t *testing.T) {
			r := newRig(t, cfg)
			r.returned()
			for epoch := uint64(2); epoch < 40; epoch++ {
				r.forget()
				equal(t, "the first request", r.again(), Swap)
				r.serve()
				b := find[Begin](r)
				equal(t, "epoch", b.Epoch, epoch)
				r.step(DutyStopped{election1, b.Epoch})
				r.step(Withdraw{election1})
				r.serve()
				if n := len(every[Send](r)); n != 2 {
					t.Fatalf("%d requests:%s", n, r.list())
				}
			}

			rec := r.store[election1]
			equal(t, "terms in the record", len(rec.Past), driver.MaxPast)
			equal(t, "the last of them", rec.Past[driver.MaxPast-1].Epoch, 39)
		})
	}

	t.Run("a_release_without_interest_is_not_read", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.step(Watch{election1})
		r.returned()
		r.run(time.Second)
		equal(t, "requests", len(every[Send](r)), 0)
		equal(t, "the first request", r.again(), Swap)
	})

	t.Run("a_register_that_has_moved_is_read_at_once", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.returned()
		r.put(held(other, 2, ""))
		equal(t, "the first request", r.again(), Swap)
		r.serve()
		sent := every[Send](r)
		equal(t, "requests", len(sent), 2)
		equal(t, "the second", sent[1].Verb, Get)
		equal(t, "terms", len(every[Begin](r)), 0)
	})

	t.Run("an_election_that_others_have_released_meanwhile_is_claimed_at_once", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.returned()
		r.put(driver.Record{Name: election1, Epoch: 2, Nonce: 77, Duration: 6 * time.Second})
		equal(t, "the first request", r.again(), Swap)
		r.serve()
		equal(t, "epoch", find[Begin](r).Epoch, 3)
		equal(t, "requests", len(every[Send](r)), 3)
	})

	t.Run("a_claim_of_unknown_outcome_is_adopted", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.returned()
		equal(t, "the first request", r.again(), Swap)
		claim := r.take(election1)
		r.apply(claim)
		r.answer(claim, Unknown, driver.Record{})
		r.run(2 * time.Second)
		equal(t, "epoch", find[Begin](r).Epoch, 2)
	})

	t.Run("each_record_is_used_once", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.returned()
		equal(t, "the first request", r.again(), Swap)
		r.answer(r.take(election1), NotSent, driver.Record{})
		r.pending = nil
		r.step(Withdraw{election1})
		r.run(2 * time.Second)
		equal(t, "the next candidacy", r.again(), Get)
	})
}

func TestClaimReadsFirst(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		before func(*rig) // between the release and the candidacy
	}{
		"after_an_election_interval":     {before: func(r *rig) { r.run(5 * time.Second) }},
		"if_a_higher_epoch_was_observed": {before: func(r *rig) { r.step(Observed{election1, 7}) }},
		"if_a_late_answer_has_shown_a_higher_epoch": {before: func(r *rig) {
			r.step(Shown{driver.Record{Name: election1, Epoch: 5, Rev: "late"}})
		}},
		"if_an_answer_has_shown_another_record": {before: func(r *rig) {
			r.step(Shown{driver.Record{Name: election1, Epoch: 1, Rev: "late"}})
		}},
		"if_the_register_was_read_since": {before: func(r *rig) {
			r.step(Watch{election1})
			r.serve()
			r.step(Unwatch{election1})
			r.serve()
		}},
		"if_the_store_has_failed":    {before: func(r *rig) { r.c.failed() }},
		"if_a_rank_decides":          {before: func(r *rig) { r.c.rank = parseRank(RankPriority) }},
		"if_the_member_may_not_lead": {before: func(r *rig) { r.step(Health{Healthy: false}) }},
		"if_the_floor_is_old": {
			change: func(cfg *Config) { cfg.Rest = 2 * time.Second },
			before: func(r *rig) { r.run(3 * time.Second) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := lockConfig()
			cfg.Register = true
			if c.change != nil {
				c.change(&cfg)
			}

			r := newRig(t, cfg)
			r.returned()
			r.run(20 * time.Millisecond)
			if c.before != nil {
				c.before(r)
			}

			r.pending = nil
			equal(t, "the first request", r.again(), Get)
		})
	}
}

// Nothing is claimed without a read that was released for somebody else, or while nobody may claim it.
func TestReleaseThatIsNotKept(t *testing.T) {
	for name, end := range map[string]func(*rig, uint64){
		"if_the_election_is_paused": func(r *rig, epoch uint64) {
			r.step(Pause{ID: 1, Election: election1})
			r.serve()
			r.step(DutyStopped{election1, epoch})
		},
		"if_it_is_reserved": func(r *rig, epoch uint64) {
			r.step(HandOff{ID: 1, Election: election1, To: "b"})
			r.step(DutyStopped{election1, epoch})
		},
		"if_the_store_has_lost_writes": func(r *rig, epoch uint64) {
			r.step(Observed{election1, epoch + 1})
			r.step(DutyStopped{election1, epoch})
		},
		"if_the_checkpoint_is_large": func(r *rig, epoch uint64) {
			r.step(Save{ID: 1, Election: election1, Epoch: epoch, Data: make([]byte, maxKnownData+1)})
			r.serve()
			r.step(DutyStopped{election1, epoch})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, lockConfig())
			b := r.lead()
			end(r, b.Epoch)
			r.step(Withdraw{election1})
			r.serve()
			rec := r.store[election1]
			equal(t, "vacant", rec.Vacant(), true)
			equal(t, "the first request", r.again(), Get)
		})
	}
}

func TestKnownRecordsAreFew(t *testing.T) {
	r := newRig(t, lockConfig())
	r.step(Join{})
	for i := range 3 * maxKnown {
		name := "e" + strconv.Itoa(i)
		r.forget()
		r.step(Campaign{name})
		r.serve()
		r.step(DutyStopped{name, find[Begin](r).Epoch})
		r.step(Withdraw{name})
		r.serve()
	}

	equal(t, "records", len(r.c.known), maxKnown)
	equal(t, "the last of them", r.c.known[maxKnown-1].rec.Name, "e"+strconv.Itoa(3*maxKnown-1))
	r.run(time.Minute)
	r.forget()
	r.returned()
	equal(t, "records of the last seconds", len(r.c.known), 1)
}

// The next core of the process goes on with what the one before knew: its first term takes two requests, too.
func TestNextCoreClaimsWithoutRead(t *testing.T) {
	cfg := lockConfig()
	cfg.Rest = time.Hour
	r := newRig(t, cfg)
	r.returned()
	r.step(Close{})
	r.run(time.Second)
	next := New(cfg, &counter{clock: &r.now, last: 1000})
	next.Inherit(r.c)
	r.c = next
	r.forget()
	r.start()
	r.serve()
	equal(t, "epoch", find[Begin](r).Epoch, 2)
	equal(t, "requests", len(every[Send](r)), 1)
}
