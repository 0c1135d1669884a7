package storetest

import (
	"fmt"
	"math"
	"time"
)

// op is one operation on one register, as its caller saw it: a read, or a swap.
type op struct {
	start, end time.Duration // before it was sent, after it was answered
	swap       bool
	from       string // a swap: the revision that it replaces
	rev        string // the revision read or written; empty if there was none
	nonce      uint64 // of the record read or written; unique to a swap
	refused    bool   // a swap: answered with ErrConflict
	unknown    bool   // a swap: may have been applied at any time since it was sent
}

// version is a record that the register has held.
type version struct {
	from  string
	nonce uint64
	index int // 1 for the first; 0 is the register before it was written
}

// linearizable returns an error unless there is an order of the operations, each at a moment between its start and its
// end, in which every operation would have got the answer that it got.
//
// In general that takes a search. Here every swap names the revision that it replaces, so the order of the versions is
// known, and an operation must lie where its version was. It is enough to check pairs: if one operation ended before
// another began, it must not stand behind it in the order of versions. (Real time is an interval order, so any longer
// cycle contains such a pair.)
func linearizable(history []op) error {
	versions, err := versionsOf(history)
	if err != nil {
		return err
	}

	type place struct {
		op
		lo, hi int // its position: a write of version i is at 2i, a read of it at 2i+1
	}

	var places []place
	lost := map[string]bool{} // revisions that a swap of unknown outcome may have replaced
	for _, o := range history {
		if o.swap && o.unknown {
			lost[o.from] = true
		}
	}

	for _, o := range history {
		p := place{op: o}
		switch i := versions[o.rev].index; {
		case o.swap && o.unknown:
			continue // versionsOf has placed it, if any read has shown it
		case o.swap && o.refused:
			if lost[o.from] {
				continue
			}
			// Somewhere after its revision was replaced. The revision was current once, or the caller would not know
			// it.
			p.lo, p.hi = 2*(versions[o.from].index+1)+1, math.MaxInt
		case o.swap:
			p.lo, p.hi = 2*i, 2*i
		default:
			p.lo, p.hi = 2*i+1, 2*i+1
		}

		places = append(places, p)
	}

	for _, a := range places {
		for _, b := range places {
			if a.end < b.start && a.lo > b.hi {
				return fmt.Errorf("not linearizable: {%v} ended before {%v} began", a.op, b.op)
			}
		}
	}

	return nil
}

// versionsOf returns the versions by revision, with their order.
func versionsOf(history []op) (map[string]version, error) {
	versions := map[string]version{"": {}}
	unsure, refused := map[uint64]op{}, map[uint64]op{}
	for _, o := range history {
		switch {
		case !o.swap:
		case o.unknown:
			unsure[o.nonce] = o
		case o.refused:
			refused[o.nonce] = o
		default:
			if _, twice := versions[o.rev]; twice {
				return nil, fmt.Errorf("{%v} has a revision that was there before", o)
			}
			versions[o.rev] = version{from: o.from, nonce: o.nonce}
		}
	}

	for _, o := range history {
		if o.swap {
			continue
		}

		v, known := versions[o.rev]
		if !known {
			swap, ok := unsure[o.nonce]
			if no, is := refused[o.nonce]; is {
				return nil, fmt.Errorf("{%v} shows what {%v} was refused", o, no)
			}

			if !ok || swap.start > o.end {
				return nil, fmt.Errorf("{%v} shows a record that nobody wrote", o)
			}

			v = version{from: swap.from, nonce: swap.nonce}
			versions[o.rev] = v
		}

		if v.nonce != o.nonce {
			return nil, fmt.Errorf("{%v} shows another record than was written at its revision, nonce %d", o, v.nonce)
		}
	}

	return versions, number(versions)
}

// number sets the indexes of the versions, from the first one on.
func number(versions map[string]version) error {
	next := map[string]string{}
	for rev, v := range versions {
		if rev == "" {
			continue
		}
		if other, taken := next[v.from]; taken {
			return fmt.Errorf("revision %q was replaced twice, by nonces %d and %d", v.from, versions[other].nonce,
				v.nonce)
		}
		next[v.from] = rev
	}

	n := 0
	for rev, ok := next[""]; ok; rev, ok = next[rev] {
		n++
		v := versions[rev]
		v.index = n
		versions[rev] = v
	}

	if n != len(versions)-1 {
		return fmt.Errorf("%d of %d revisions replaced one that was never current", len(versions)-1-n, len(versions)-1)
	}
	return nil
}

func (o op) String() string {
	what := "read"
	switch {
	case o.refused:
		what = "refused swap of " + o.from
	case o.unknown:
		what = "unanswered swap of " + o.from
	case o.swap:
		what = "swap of " + o.from
	}
	return fmt.Sprintf("%s, revision %q, nonce %d, %v to %v", what, o.rev, o.nonce, o.start, o.end)
}
