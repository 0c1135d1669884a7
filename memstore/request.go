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

	inBatch // one swap of a SwapAll, which is not a request of its own
	notice

	// Refresh comes after these, because the random numbers of a kind of request depend on its value.
	Refresh
	inRefresh // one read of a Refresh, which is not a request of its own
	Remove
)

// String returns the kind in words, such as "swap all".
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

// Request is a request that a client has sent.
type Request struct {
	Client string
	Kind   Kind
	Name   string // the register, or a List's prefix; empty for a SwapAll or a Refresh
	At     time.Time
}

// Counts are the numbers of requests that were sent, answered or not. A SwapAll or a Refresh is one request, however
// many registers it names.
type Counts struct{ Gets, Swaps, Lists, SwapAlls, Refreshes, Removes int64 }

// Writes returns the number of requests that may have changed something.
func (n Counts) Writes() int64 { return n.Swaps + n.SwapAlls + n.Removes }

// Total returns the number of all requests.
func (n Counts) Total() int64 { return n.Gets + n.Lists + n.Refreshes + n.Writes() }

// requestCounter counts requests by kind.
type requestCounter struct{ sent [Remove + 1]atomic.Int64 }

func (t *requestCounter) count(k Kind) { t.sent[k].Add(1) }

// Counts returns how many requests were sent so far.
func (t *requestCounter) Counts() Counts {
	return Counts{
		Gets: t.sent[Get].Load(), Swaps: t.sent[Swap].Load(), Lists: t.sent[List].Load(),
		SwapAlls:  t.sent[SwapAll].Load(),
		Refreshes: t.sent[Refresh].Load(), Removes: t.sent[Remove].Load(),
	}
}

// Requests implements [driver.Counter].
func (t *requestCounter) Requests() map[string]uint64 {
	counts := map[string]uint64{}
	for _, k := range []Kind{Get, Swap, List, SwapAll, Refresh, Remove} {
		if n := t.sent[k].Load(); n > 0 {
			counts[k.String()] = uint64(n)
		}
	}
	return counts
}
