package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestLinearizable(t *testing.T) {
	swap := func(start, end time.Duration, from, rev string, nonce uint64) op {
		return op{start: start, end: end, swap: true, from: from, rev: rev, nonce: nonce}
	}
	read := func(start, end time.Duration, rev string, nonce uint64) op {
		return op{start: start, end: end, rev: rev, nonce: nonce}
	}

	unsure := op{start: 5, end: 6, swap: true, from: "1", nonce: 9, unknown: true}
	refused := op{start: 5, end: 6, swap: true, from: "1", nonce: 9, refused: true}
	first, second := swap(0, 4, "", "1", 1), swap(7, 9, "1", "2", 2)
	for name, tt := range map[string]struct {
		history []op
		good    bool
	}{
		"nothing_happened":                    {nil, true},
		"a_read_between_two_swaps":            {[]op{first, read(5, 6, "1", 1), second}, true},
		"a_read_of_either_during_a_swap":      {[]op{first, second, read(6, 8, "2", 2), read(6, 8, "1", 1)}, true},
		"a_read_of_nothing_before_the_first":  {[]op{first, read(0, 1, "", 0)}, true},
		"a_stale_read":                        {[]op{first, second, read(10, 11, "1", 1)}, false},
		"a_read_from_the_future":              {[]op{first, read(5, 6, "2", 2), second}, false},
		"two_reads_that_go_back":              {[]op{first, second, read(7, 8, "2", 2), read(9, 9, "1", 1)}, false},
		"a_read_of_nothing_after_the_first":   {[]op{first, read(5, 6, "", 0)}, false},
		"a_lost_update":                       {[]op{first, second, swap(7, 9, "1", "3", 3)}, false},
		"a_revision_given_twice":              {[]op{first, swap(5, 6, "1", "1", 2)}, false},
		"a_record_that_nobody_wrote":          {[]op{first, read(5, 6, "8", 8)}, false},
		"another_record_at_the_revision":      {[]op{first, read(5, 6, "1", 7)}, false},
		"a_swap_of_what_never_was":            {[]op{first, swap(5, 6, "7", "8", 2)}, false},
		"a_refusal_that_was_applied":          {[]op{first, refused, read(7, 8, "2", 9)}, false},
		"a_refusal_before_anything_had_moved": {[]op{first, refused, second}, false},
		"a_refusal_during_another_swap":       {[]op{first, refused, swap(6, 9, "1", "2", 2)}, true},
		"an_unanswered_swap_seen_later":       {[]op{first, unsure, read(7, 8, "1", 1), read(9, 10, "2", 9)}, true},
		"an_unanswered_swap_never_seen":       {[]op{first, unsure, second}, true},
		"an_unanswered_swap_and_another":      {[]op{first, unsure, second, read(10, 11, "3", 9)}, false},
		"an_unanswered_swap_seen_too_early":   {[]op{first, unsure, read(3, 4, "2", 9)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := linearizable(tt.history); (err == nil) != tt.good {
				t.Errorf("linearizable = %v, want good %v", err, tt.good)
			}
		})
	}
}

// linearizable agrees with search, which tries every order.
func TestLinearizableAgreesWithASearch(t *testing.T) {
	var good, bad int
	for seed := range uint64(20000) {
		history := invent(rand.New(rand.NewPCG(1, seed)))
		err, found := linearizable(history), search(history, []string{""})
		if found {
			good++
		} else {
			bad++
		}

		if (err == nil) != found {
			t.Fatalf("seed %d: linearizable = %v, a search says %v:\n%v", seed, err, found, history)
		}
	}

	if good < 1000 || bad < 1000 {
		t.Errorf("only %d good and %d bad histories were invented", good, bad)
	}
}

// invent makes a short history of a register that works, and then sometimes breaks it.
func invent(r *rand.Rand) []op {
	var history []op
	rev, nonce := "", uint64(0)
	revs := []string{""}
	for i := range 2 + r.IntN(5) {
		at := time.Duration(10 * i) // when it takes effect
		o := op{start: at - time.Duration(r.IntN(15)), end: at + time.Duration(r.IntN(15))}
		switch from := revs[r.IntN(len(revs))]; {
		case r.IntN(2) == 0:
			o.rev, o.nonce = rev, nonce
		case from != rev && r.IntN(2) == 0:
			o.swap = true
			o.refused = true
			o.from = from
			o.nonce = uint64(i + 1)
		default:
			o.swap = true
			o.from = rev
			o.rev = fmt.Sprint(i + 1)
			o.nonce = uint64(i + 1)
			rev, nonce = o.rev, o.nonce
			revs = append(revs, rev)
		}

		history = append(history, o)
	}

	if r.IntN(2) == 0 { // another time for one of them
		o := &history[r.IntN(len(history))]
		shift := time.Duration(r.IntN(120) - 60)
		o.start, o.end = o.start+shift, o.end+shift
	}

	return history
}

// search tries every order of the operations that real time allows. revs are the register's revisions so far.
func search(history []op, revs []string) bool {
	if len(history) == 0 {
		return true
	}

	rev := revs[len(revs)-1]
	for i, o := range history {
		fits := !slices.ContainsFunc(history, func(other op) bool { return other.end < o.start })
		next := revs
		switch {
		case o.refused:
			fits = fits && o.from != rev && slices.Contains(revs, o.from)
		case o.swap:
			fits, next = fits && o.from == rev, append(slices.Clone(revs), o.rev)
		default:
			fits = fits && o.rev == rev
		}

		if fits && search(slices.Delete(slices.Clone(history), i, i+1), next) {
			return true
		}
	}

	return false
}
