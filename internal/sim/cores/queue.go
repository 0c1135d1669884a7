package cores

import (
	"time"

	"github.com/regentd/regent/internal/core"
)

// eventKind is what an event is. The frequent kinds carry no function, so that a run allocates little.
type eventKind uint8

const (
	callEvent    eventKind = iota // do is called
	tickEvent                     // a core is called, as it has asked for
	arriveEvent                   // a request arrives at the store
	answerEvent                   // an answer arrives at a process
	inspectEvent                  // the simulation is inspected
)

// event is one thing that happens at a moment. One that has a process happens in that run of it: not at all once that
// run is over, and not before the process goes on if it is frozen.
type event struct {
	kind eventKind
	proc *proc
	run  int
	req  *request
	at   core.Time // of a tick: what the core has asked for
	do   func()
}

// queue is a heap of events by time. Events of one moment happen in the order in which they were added.
type queue struct {
	heap []place
	all  []event
	free []uint32
	seq  uint64
}

type place struct {
	at    time.Duration
	seq   uint64
	index uint32
}

func (p place) before(o place) bool { return p.at < o.at || p.at == o.at && p.seq < o.seq }

func (q *queue) reset() {
	clear(q.all)
	q.heap = q.heap[:0]
	q.all = q.all[:0]
	q.free = q.free[:0]
	q.seq = 0
}

func (q *queue) push(at time.Duration, e event) {
	var index uint32
	if n := len(q.free); n > 0 {
		index = q.free[n-1]
		q.free = q.free[:n-1]
		q.all[index] = e
	} else {
		index = uint32(len(q.all))
		q.all = append(q.all, e)
	}

	q.seq++
	q.heap = append(q.heap, place{})
	i := len(q.heap) - 1
	added := place{at, q.seq, index}
	for i > 0 && added.before(q.heap[(i-1)/2]) {
		q.heap[i] = q.heap[(i-1)/2]
		i = (i - 1) / 2
	}

	q.heap[i] = added
}

// pop returns the next event and its time.
func (q *queue) pop() (time.Duration, event) {
	first := q.heap[0]
	last := len(q.heap) - 1
	moved := q.heap[last]
	q.heap = q.heap[:last]

	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}

		if child+1 < last && q.heap[child+1].before(q.heap[child]) {
			child++
		}

		if !q.heap[child].before(moved) {
			break
		}

		q.heap[i] = q.heap[child]
		i = child
	}

	if last > 0 {
		q.heap[i] = moved
	}

	e := q.all[first.index]
	q.all[first.index] = event{}
	q.free = append(q.free, first.index)
	return first.at, e
}
