package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/regentd/regent/driver"
)

var batchChecks = []check{
	{"each_swap_of_a_batch_has_its_own_outcome", func(r *rig) {
		s := r.client()
		batch := r.batcher(s)
		if outs := batch.SwapAll(r.ctx, nil); len(outs) != 0 {
			r.Errorf("SwapAll of nothing has %d outcomes", len(outs))
		}

		stale := r.swap(s, taken("stale", 1))
		r.swap(s, renewed(stale))
		current := r.swap(s, filled("current"))
		r.swap(s, taken("written", 1))
		ls := []driver.Record{
			handed(stale, "b"), renewed(current), handed(taken("written", 2), "b"), taken("new", 3),
			{Name: "unwritten", Rev: current.Rev, Nonce: 4}, filled("full"),
		}

		applied := []bool{false, true, false, true, false, true}
		outs := batch.SwapAll(r.ctx, ls)
		if len(outs) != len(ls) {
			r.Fatalf("SwapAll of %d has %d outcomes", len(ls), len(outs))
		}

		for i, o := range outs {
			got, err := s.Get(r.ctx, ls[i].Name)
			switch {
			case !applied[i]:
				if !errors.Is(o.Err, driver.ErrConflict) || err == nil && got.Nonce == ls[i].Nonce &&
					got.Holder == ls[i].Holder {
					r.Errorf("swap of %q in a batch: %v, then %+v, want ErrConflict", ls[i].Name, o.Err, got)
				}
			case o.Err != nil || err != nil:
				r.Errorf("swap of %q in a batch: %v, then %v", ls[i].Name, o.Err, err)
			default:
				if diff := differ(ls[i], o.Record) + differ(ls[i], got); diff != "" || o.Record.Rev != got.Rev ||
					got.Rev == ls[i].Rev {
					r.Errorf("swap of %q in a batch: revision %q, then %q;%s", ls[i].Name, o.Record.Rev, got.Rev, diff)
				}
			}
		}
	}},
	{"a_batch_may_hold_1000_swaps", func(r *rig) {
		s := r.client()
		batch := r.batcher(s)
		ls := make([]driver.Record, 1000)
		for i := range ls {
			ls[i] = taken(fmt.Sprintf("seat/%d", i), 1)
		}

		for round := range 2 {
			for i, o := range batch.SwapAll(r.ctx, ls) {
				if o.Err != nil {
					r.Fatalf("round %d: swap %d of 1000: %v", round, i, o.Err)
				}
				ls[i] = renewed(o.Record)
			}
		}

		listed := r.list(s, "seat/")
		for _, l := range ls {
			if got := listed[l.Name]; got.Rev != l.Rev || got.Nonce != 2 {
				r.Fatalf("after two batches %q is at revision %q, nonce %d, want %q, 2", l.Name, got.Rev, got.Nonce,
					l.Rev)
			}
		}
	}},
	{"one_of_two_swaps_of_a_register_in_a_batch_wins", func(r *rig) {
		s := r.client()
		batch := r.batcher(s)
		l := r.swap(s, taken("seat", 1))
		for _, from := range []driver.Record{taken("new", 1), l} {
			outs := batch.SwapAll(r.ctx,
				[]driver.Record{handed(from, "b"), taken("between "+from.Name, 1), handed(from, "c")})
			if len(outs) != 3 {
				r.Fatalf("SwapAll of 3 has %d outcomes", len(outs))
			}

			winner := outs[0]
			loser := outs[2]
			id := "b"
			if winner.Err != nil {
				winner, loser = loser, winner
				id = "c"
			}

			if winner.Err != nil || !errors.Is(loser.Err, driver.ErrConflict) {
				r.Errorf("two swaps of %q in a batch: %v and %v, want one ErrConflict", from.Name, outs[0].Err,
					outs[2].Err)
			}

			if got := r.get(s, from.Name); got.Holder.ID != id || got.Rev != winner.Record.Rev {
				r.Errorf("%q is held by %q at revision %q, want %q, %q", from.Name, got.Holder.ID, got.Rev, id,
					winner.Record.Rev)
			}

			if outs[1].Err != nil {
				r.Errorf("a swap between two of one register: %v", outs[1].Err)
			}
		}
	}},
	{"racing_batches_have_one_winner_of_each_register", func(r *rig) {
		all := r.clients(4)
		r.batcher(all[0])
		for round := range 10 {
			r.raceBatches(all, fmt.Sprintf("seat/%d/", round))
		}
	}},
	{"a_live_process_is_not_gone", func(r *rig) {
		s := r.client()
		w, ok := s.(driver.Witness)
		if !ok {
			r.Skip("the store is no Witness")
		}

		l := r.swap(s, taken("seat", 1))
		for range 3 {
			for what, l := range map[string]driver.Record{
				"its own record": l, "a record read": r.get(s, "seat"), "no record": {},
				"a record of nobody": {Name: "none", Nonce: 9},
			} {
				if w.Gone(r.ctx, l) {
					r.Errorf("the process that wrote %s is said to be gone", what)
				}
			}
			l = r.swap(s, renewed(l))
		}
	}},
}

// raceBatches sends batches that create the same registers at once. Each register must have at most one winner.
func (r *rig) raceBatches(all []driver.Store, prefix string) {
	r.Helper()
	const batches, size = 8, 40
	outs := make([][]driver.Outcome, batches)
	r.together(batches, func(i int) {
		ls := make([]driver.Record, size)
		for j := range ls {
			ls[j] = taken(fmt.Sprint(prefix, j), uint64(i+1))
		}

		if i%2 == 1 { // in the other order: a store that locks registers one by one must not deadlock
			slices.Reverse(ls)
		}

		outs[i] = all[i%len(all)].(driver.Batcher).SwapAll(r.ctx, ls)
		if i%2 == 1 {
			slices.Reverse(outs[i])
		}
	})

	for j := range size {
		got := r.get(all[0], fmt.Sprint(prefix, j))
		var won []uint64
		for i := range outs {
			nonce := uint64(i + 1)
			switch err := outs[i][j].Err; {
			case err == nil:
				won = append(won, nonce)
			case errors.Is(err, driver.ErrConflict) && got.Nonce == nonce:
				r.Errorf("batch %d got ErrConflict for %q, and was applied", nonce, got.Name)
			}
		}

		if len(won) > 1 || len(won) == 1 && won[0] != got.Nonce {
			r.Errorf("batches %v have won %q, which shows batch %d", won, got.Name, got.Nonce)
		}
	}
}

// filled returns a full record with another name.
func filled(name string) driver.Record {
	l := full()
	l.Name = name
	return l
}

// batcher returns s as a Batcher, or skips the test.
func (r *rig) batcher(s driver.Store) driver.Batcher {
	r.Helper()
	b, ok := s.(driver.Batcher)
	if !ok {
		r.Skip("the store is no Batcher")
	}
	return b
}
