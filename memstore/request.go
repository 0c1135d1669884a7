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
	}
	return "unknown"
}

func (k Kind) writes() bool { return k == Swap || k == SwapAll }

// Request is a request as it was sent.
type Request struct {
	Client string
	Kind   Kind
	Name   string // the register, or a List's prefix; empty for a SwapAll
	At     time.Time
}

// Counts says how many requests were sent, answered or not. A SwapAll is one, however many swaps it carries.
type Counts struct{ Gets, Swaps, Lists, SwapAlls int64 }

// Writes returns the number of requests that may have changed something.
func (n Counts) Writes() int64 { return n.Swaps + n.SwapAlls }

// Total returns the number of all requests.
func (n Counts) Total() int64 { return n.Gets + n.Swaps + n.Lists + n.SwapAlls }

// tally counts requests by kind.
type tally struct{ sent [SwapAll + 1]atomic.Int64 }

func (t *tally) count(k Kind) { t.sent[k].Add(1) }

// Counts returns how many requests were sent so far.
func (t *tally) Counts() Counts {
	return Counts{
		Gets: t.sent[Get].Load(), Swaps: t.sent[Swap].Load(), Lists: t.sent[List].Load(), SwapAlls: t.sent[SwapAll].Load(),
	}
}
