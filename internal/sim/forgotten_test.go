package sim

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
)

// TestForgottenHolders is about claims in place of a holder whose register does not know it any more (R5).
func TestForgottenHolders(t *testing.T) {
	holder := driver.Identity{ID: "a", Incarnation: "A1"}
	record := driver.Record{Name: election, Rev: "1", Holder: holder, Epoch: 1, Via: beatA}
	ended := driver.Record{Name: beatA, Rev: "3", Epoch: 1}

	for _, c := range []struct {
		name string
		fell bool
		see  func(p *process, before time.Duration)
	}{
		{"a_join_that_was_lost_makes_a_claim_wait", true, func(p *process, _ time.Duration) {
			p.saw(record, p.clock.Now())
		}},
		{"an_end_that_was_seen_before_is_final", false, func(p *process, _ time.Duration) {
			p.saw(record, p.clock.Now())
			time.Sleep(second)
			p.saw(ended, p.clock.Now())
		}},
		{"and_stays_final_when_the_record_comes_back_after_another", false, func(p *process, _ time.Duration) {
			p.saw(record, p.clock.Now())
			time.Sleep(second)
			p.saw(driver.Record{Name: election, Rev: "2", Epoch: 1}, p.clock.Now())
			p.saw(ended, p.clock.Now())
			time.Sleep(second)
			p.saw(record, p.clock.Now())
		}},
		{"an_end_seen_by_a_request_that_is_older_than_the_record_proves_nothing", true,
			func(p *process, before time.Duration) {
				p.saw(record, p.clock.Now())
				time.Sleep(second)
				p.saw(ended, before)
			}},
		{"the_holder_alive_is_no_end", true, func(p *process, _ time.Duration) {
			p.saw(record, p.clock.Now())
			time.Sleep(second)
			p.saw(driver.Record{Name: beatA, Rev: "2", Holder: holder, Epoch: 1}, p.clock.Now())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				r := newRecorder(time.Now())
				r.joins[beatA] = []join{{who: "A1", proc: 0, count: 1}}
				p := &process{rec: r, index: 1, clock: &clock{start: r.start, rate: 1}, seen: map[string][]sighting{},
					knows: map[string]uint64{}, heights: map[string]*height{}, forgotten: map[string]time.Duration{},
					endSeen: map[string]time.Duration{}}
				before := p.clock.Now()
				time.Sleep(second)
				c.see(p, before)

				time.Sleep(second)
				p.sawNothing(beatA, p.clock.Now())
				time.Sleep(second)
				fell, waited := p.regressed(election, record)
				if fell != c.fell || fell && waited != second {
					t.Errorf("fell is %t after %v, and should be %t", fell, waited, c.fell)
				}
			})
		})
	}
}
