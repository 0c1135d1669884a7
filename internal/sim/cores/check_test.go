package cores

import (
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// observer is a process whose core is never called: a test says what it was shown, and what it sends.
type observer struct {
	*proc
	reg  *register
	sent uint64 // requests
}

func newObserver() *observer {
	s := new(sim)
	s.reset(1, nil)
	s.elect("short0")
	s.cfg = profile()
	s.cfg.Rest = rest
	cfg := s.cfg
	cfg.ID = "m0"
	ownLeases(&cfg)
	p := s.add(cfg)
	p.terms = make([]term, 1)
	return &observer{proc: p, reg: s.store.register("short0")}
}

// answer shows the observer what became of a request that it sends now.
func (o *observer) answer(verb core.Verb, outcome core.Outcome, r driver.Record) {
	o.sent++
	o.sim.now += time.Second
	send := core.Send{ID: o.sent << 32, Verb: verb, Record: driver.Record{Name: o.reg.name}}
	shown := r
	if verb == core.Remove {
		send.Record = r
		shown = driver.Record{}
	}

	o.lastSent = o.sent
	o.shown(&request{
		proc: o.proc, send: send, reg: o.reg, at: o.sim.now, sent: o.clock(), outcome: outcome, rec: shown,
	}, true)
}

func (o *observer) reads(r driver.Record) { o.answer(core.Get, core.Done, r) }

// removes lets the observer remove the register, and somebody make it anew before the answer comes.
func (o *observer) removes(r driver.Record) { o.answer(core.Remove, core.Done, r) }

// claims returns the violation that the checker finds if the observer claims the register now.
func (o *observer) claims(rev string, epoch uint64) error {
	who := driver.Identity{ID: o.cfg.ID, Incarnation: o.Incarnation()}
	o.checkClaim(o.view(o.reg), &driver.Record{Name: o.reg.name, Rev: rev, Holder: who, Epoch: epoch})
	return o.sim.err
}

// vacant is a record that somebody has released, or made for an edit.
func vacant(rev string, epoch uint64) driver.Record {
	return driver.Record{Name: "short0", Rev: rev, Epoch: epoch, Nonce: epoch + 10}
}

// held is a record that another process holds.
func held(rev string, epoch uint64) driver.Record {
	r := vacant(rev, epoch)
	r.Holder = driver.Identity{ID: "m1", Incarnation: "i7"}
	r.Duration = 6 * time.Second
	return r
}

// TestRemovedByItself covers rule 5 of the checker where a process has removed the register of an election: what it has
// removed it may see made anew, and claim at once. What went beyond that it must wait for.
func TestRemovedByItself(t *testing.T) {
	t.Run("a_register_that_it_removed_is_made_anew", func(t *testing.T) {
		o := newObserver()
		o.reads(vacant("1", 1))
		o.removes(vacant("1", 1))
		o.reads(vacant("2", 0))
		if err := o.claims("2", 2); err != nil {
			t.Errorf("a claim of a register that was made anew: %v", err)
		}
	})

	t.Run("a_register_that_may_have_been_removed_is_made_anew", func(t *testing.T) {
		o := newObserver()
		o.reads(held("1", 1))
		o.sim.now += rest
		o.answer(core.Get, core.NotFound, driver.Record{})
		o.reads(vacant("2", 0))
		if err := o.claims("2", 2); err != nil {
			t.Errorf("a claim of a register that was made anew: %v", err)
		}
	})

	faults := map[string]func(o *observer){
		"a_register_that_cannot_have_been_removed_is_made_anew": func(o *observer) {
			o.sim.now += rest
			o.reads(held("1", 1))
			o.answer(core.Get, core.NotFound, driver.Record{})
			o.reads(vacant("2", 0))
		},
		"a_register_that_it_did_not_remove_falls": func(o *observer) {
			o.reads(vacant("1", 1))
			o.reads(vacant("2", 0))
		},
		"a_later_epoch_than_the_one_it_removed_is_lost": func(o *observer) {
			o.reads(vacant("1", 1))
			o.reads(held("2", 2))
			o.removes(vacant("1", 1)) // the store has lost revision 2
			o.reads(vacant("3", 0))
		},
		"it_is_made_anew_and_claimed_and_then_lost": func(o *observer) {
			o.reads(vacant("1", 1))
			o.removes(vacant("1", 1))
			o.reads(held("2", 2))
			o.reads(vacant("3", 0))
		},
	}
	for name, show := range faults {
		t.Run(name, func(t *testing.T) {
			o := newObserver()
			show(o)
			err := o.claims(o.view(o.reg).rev, 3)
			if err == nil || !strings.Contains(err.Error(), "rule 5") {
				t.Errorf("a claim at once is not found: %v", err)
			}
		})
	}
}
