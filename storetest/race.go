package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
)

// racers is how many swaps of one revision are sent at once.
const racers = 64

var raceChecks = []check{
	{"one_of_64_racing_swaps_wins", func(r *rig) {
		all := r.clients(4)
		l := r.swap(all[0], taken("seat", 1))
		for range 20 {
			l = r.race(all, l)
		}
	}},
	{"one_of_64_racing_creations_wins", func(r *rig) {
		all := r.clients(4)
		for i := range 20 {
			r.race(all, taken(fmt.Sprintf("seat/%d", i), 0))
		}
	}},
	{"a_concurrent_history_is_linearizable", func(r *rig) {
		all := r.clients(3)
		r.wantLinearizable(1, func(i int) driver.Store { return all[i%3] })
	}},
}

// wantLinearizable runs workers on one register concurrently, and wants their history to be linearizable. storeOf
// returns the store of a worker.
func (r *rig) wantLinearizable(seed uint64, storeOf func(i int) driver.Store) {
	r.Helper()
	const workers, steps = 8, 60
	var mu sync.Mutex
	var history []op
	begin := time.Now()

	r.together(workers, func(i int) {
		w := worker{store: storeOf(i), begin: begin, rand: rand.New(rand.NewPCG(seed, uint64(i)))}
		for step := range steps {
			o, ok := w.step(r.ctx, uint64(i*steps+step+1))
			if ok {
				mu.Lock()
				history = append(history, o)
				mu.Unlock()
			}
		}
	})

	if err := linearizable(history); err != nil {
		r.Errorf("%d operations: %v", len(history), err)
	}
}

// race sends swaps of one revision at once, wants at most one winner, and returns the register's record.
func (r *rig) race(all []driver.Store, l driver.Record) driver.Record {
	r.Helper()
	errs, got := make([]error, racers), make([]driver.Record, racers)
	base := l.Nonce
	r.together(racers, func(i int) {
		mine := l
		mine.Nonce = base + uint64(i) + 1
		mine.Holder.ID = fmt.Sprintf("racer %d", i)
		got[i], errs[i] = all[i%len(all)].Swap(r.ctx, mine)
	})

	after := r.get(all[0], l.Name)
	winner := int(after.Nonce - base - 1)
	if winner < 0 || winner >= racers {
		r.Fatalf("after %d racing swaps %q shows nonce %d, which is none of theirs", racers, l.Name, after.Nonce)
	}

	var won, unknown []int
	for i, err := range errs {
		switch {
		case err == nil:
			won = append(won, i)
		case !errors.Is(err, driver.ErrConflict):
			unknown = append(unknown, i)
		case i == winner:
			r.Errorf("racer %d got ErrConflict, and its swap was applied", i)
		}
	}

	switch {
	case len(won) > 1:
		r.Fatalf("racers %v have all won %q at revision %q", won, l.Name, l.Rev)
	case len(won) == 1 && (won[0] != winner || got[winner].Rev != after.Rev):
		r.Errorf("racer %v won %q, and the register shows racer %d", won, l.Name, winner)
	case len(unknown) > racers/2:
		r.Errorf("%d of %d racing swaps have no known outcome, such as: %v", len(unknown), racers, errs[unknown[0]])
	}

	return after
}

// worker is one process of a concurrent history.
type worker struct {
	store driver.Store
	begin time.Time
	rand  *rand.Rand
	rev   string // the last revision that it knows of
	spent bool   // the register has another revision by now
}

// step reads, or swaps the last known revision. Some swaps get very little time, so that their outcome is unknown.
func (w *worker) step(ctx context.Context, nonce uint64) (o op, ok bool) {
	start := time.Since(w.begin)
	if w.spent || w.rand.IntN(4) == 0 {
		l, err := w.store.Get(ctx, "seat")
		o = op{start: start, end: time.Since(w.begin), rev: l.Rev, nonce: l.Nonce}
		w.rev, w.spent = l.Rev, false
		return o, err == nil || errors.Is(err, driver.ErrNotFound)
	}

	if w.rand.IntN(8) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(w.rand.IntN(2000))*time.Microsecond)
		defer cancel()
	}

	l := taken("seat", nonce)
	l.Rev = w.rev
	l, err := w.store.Swap(ctx, l)
	o = op{
		start: start, end: time.Since(w.begin), swap: true, from: w.rev, rev: l.Rev, nonce: nonce,
		refused: errors.Is(err, driver.ErrConflict), unknown: err != nil && !errors.Is(err, driver.ErrConflict),
	}

	w.rev, w.spent = l.Rev, err != nil
	return o, true
}
