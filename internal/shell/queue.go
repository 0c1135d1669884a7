package shell

import (
	"sync"
	"sync/atomic"

	"github.com/regentd/regent/internal/core"
)

// queue is the inputs that the core has not taken in, and who steps it.
type queue struct {
	mu     sync.Mutex
	inputs []core.Input
	head   int          // the place in inputs of the next one
	taken  bool         // somebody steps the core
	began  atomic.Int64 // since when the core is stepped; 0 if nobody does
	missed bool         // notifications were dropped
}

// maxQueue is how many inputs may wait before notifications are dropped: the core is not stepped, so they would pile
// up.
const maxQueue = 4096

func (q *queue) add(in ...core.Input) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, x := range in {
		if _, ok := x.(core.Notice); ok && len(q.inputs)-q.head >= maxQueue {
			q.missed = true
			continue
		}

		q.inputs = append(q.inputs, x)
	}
}

// acquire makes its caller the one who steps the core, unless somebody else is.
func (q *queue) acquire() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken {
		return false
	}

	q.taken = true
	return true
}

// stepping notes since when the core is stepped.
func (q *queue) stepping(now core.Time) { q.began.Store(max(1, int64(now))) }

// release makes its caller stop stepping, unless there is more to do.
func (q *queue) release() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.inputs) > 0 || q.missed {
		return false
	}

	q.taken = false
	q.began.Store(0)
	return true
}

// ready returns how many inputs have come.
func (q *queue) ready() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.inputs) == 0 && q.missed {
		return 1
	}

	return len(q.inputs) - q.head
}

// next returns the next input. The caller knows that one is ready.
func (q *queue) next() core.Input {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.inputs) == 0 {
		q.missed = false
		return core.Notice{} // anything may have changed
	}

	in := q.inputs[q.head]
	q.inputs[q.head] = nil
	q.head++
	if q.head == len(q.inputs) {
		q.inputs = q.inputs[:0]
		q.head = 0
	}

	return in
}

func (q *queue) since() core.Time { return core.Time(q.began.Load()) }
