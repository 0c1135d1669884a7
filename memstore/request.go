package memstore

import (
	"sync/atomic"
	"time"
)

// Kind is a kind of request.
type Kind uint8

// The kinds of request.
const (
	Get Kind = iota + 1
	Swap
	List
	SwapAll

	inBatch // one swap of a SwapAll, which is no request of its own
	hint

	// Refresh comes after these, since what is drawn for a kind of request depends on its number.
	Refresh
	inRefresh // one read of a Refresh, which is no request of its own
	Remove
)

func (k Kind) String() string {
	switch k {
	case Get:
		return "get"
	case Swap:
		return "swap"
	case List:
		return "list"
	case SwapAll:
		return "swap all"
	case Refresh:
		return "refresh"
	case Remove:
		return "remove"
	}
	return "unknown"
}

func (k Kind) writes() bool { return k == Swap || k == SwapAll || k == Remove }

// Request is a request as it was sent.
type Request struct {
	Client string
	Kind   Kind
	Name   string // the register, or a List's prefix; empty for a SwapAll or a Refresh
	At     time.Time
}

// Counts says how many requests were sent, answered or not. A SwapAll or a Refresh is one, however
// many registers it names.
type Counts struct{ Gets, Swaps, Lists, SwapAlls, Refreshes, Removes int64 }

// Writes returns the number of requests that may have changed something.
func (n Counts) Writes() int64 { return n.Swaps + n.SwapAlls + n.Removes }

// Total returns the number of all requests.
func (n Counts) Total() int64 { return n.Gets + n.Lists + n.Refreshes + n.Writes() }

// tally counts requests by kind.
type tally struct{ sent [Remove + 1]atomic.Int64 }

func (t *tally) count(k Kind) { t.sent[k].Add(1) }

// Counts returns how many requests were sent so far.
func (t *tally) Counts() Counts {
	return Counts{
		Gets: t.sent[Get].Load(), Swaps: t.sent[Swap].Load(), Lists: t.sent[List].Load(), SwapAlls: t.sent[SwapAll].Load(),
		Refreshes: t.sent[Refresh].Load(), Removes: t.sent[Remove].Load(),
	}
}

// Requests implements [driver.Counter].
func (t *tally) Requests() map[string]uint64 {
	counts := map[string]uint64{}
	for _, k := range []Kind{Get, Swap, List, SwapAll, Refresh, Remove} {
		if n := t.sent[k].Load(); n > 0 {
			counts[k.String()] = uint64(n)
		}
	}
	return counts
}
