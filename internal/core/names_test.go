package core

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// TestManyLockNames has a member use many names for a short time each, and retire them. However many there were, the
// registers that are left are those of the last Rest, and so is what the core knows. REGENT_NAMES says how many:
// "make soak" takes a million.
func TestManyLockNames(t *testing.T) {
	names := 4000
	if text := os.Getenv("REGENT_NAMES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("REGENT_NAMES=%q: a number of names is needed", text)
		}
		names = n
	}
	each := max(names/1000, 200) // a minute
	names -= names % each

	r := newRig(t, restingConfig())
	r.step(Join{})
	most := 0
	for first := 0; first < names; first += each {
		r.forget()
		for i := range each {
			r.step(Campaign{lockName(first + i)})
		}
		r.serve()
		begun := every[Begin](r)
		equal(t, "terms", len(begun), each)
		for _, b := range begun {
			r.step(Withdraw{b.Election})
			r.step(DutyStopped{b.Election, b.Epoch})
		}
		r.serve()
		for i := range each {
			r.step(Retire{ID: uint64(first + i + 1), Register: lockName(first + i)})
		}
		r.run(time.Minute)
		most = max(most, len(r.store))
	}
	r.forget()
	t.Logf("%d names: at most %d registers, %d epochs known, floor %d", names, most, len(r.c.memory), r.c.floor.epoch)
	if limit := 12*each + 1; most > limit {
		t.Errorf("%d registers at once, want %d at most", most, limit)
	}
	if limit := 24 * each; len(r.c.memory) > limit || len(r.c.dropped) > limit {
		t.Errorf("%d epochs of %d elections are known, want %d at most", len(r.c.memory), len(r.c.dropped), limit)
	}

	r.run(11 * time.Minute)
	if _, ok := r.store[driver.FloorRegister]; len(r.store) != 1 || !ok {
		t.Errorf("%d registers are left, want the floor alone", len(r.store))
	}
	r.step(Campaign{lockName(0)})
	r.serve()
	if b := find[Begin](r); b.Epoch <= 1 {
		t.Errorf("%s begins again in epoch %d", b.Election, b.Epoch)
	}
	r.absent(EventRegressed)
}

func lockName(i int) string { return fmt.Sprintf("lock-%d", i) }
