package shell

import (
	"container/heap"
	"math"
	"sync"
	"time"

	"github.com/regentd/regent/internal/core"
)

// guard ends leases shortly before their deadlines, whatever the loop and the store are doing (rules 7 and 9). It is
// one goroutine for all leases. Its mutex is held for a few instructions only.
type guard struct {
	s    *Shell
	kick chan struct{}

	mu  sync.Mutex
	due leaseHeap
}

// guardCheck is how often the guard reads the clock while there is a lease: timers stand still while the machine is
// suspended, and the clock does not.
const guardCheck = time.Second

func (g *guard) init(s *Shell) {
	g.s = s
	g.kick = make(chan struct{}, 1)
}

// add has a lease guarded.
func (g *guard) add(l *lease) {
	g.mu.Lock()
	l.dueAt = core.Time(l.guardAt.Load())
	heap.Push(&g.due, l)
	first := l.place == 0
	g.mu.Unlock()

	if first {
		select {
		case g.kick <- struct{}{}:
		default:
		}
	}
}

// remove ends the watch over a lease that has ended otherwise.
func (g *guard) remove(l *lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.place >= 0 {
		heap.Remove(&g.due, l.place)
	}
}

func (g *guard) run() {
	t := timer{clock: g.s.clock}
	defer t.stop()

	for {
		wait := g.expire(g.s.now())
		select {
		case <-t.after(wait):
		case <-g.kick:
		case <-g.s.ctx.Done():
			return
		}
	}
}

// expire ends the leases whose time has come, and returns how long to wait for the next.
func (g *guard) expire(now core.Time) time.Duration {
	for {
		l, wait := g.first(now)
		if l == nil {
			return wait
		}

		// The core hears of it before any duty can stop because of it.
		g.s.queue.add(core.Expired{Register: l.register, Incarnation: l.incarnation})
		l.end(g.s.cause(core.Partitioned, ""))
		go g.s.Do() // it may take long: if a callback blocks, for example
	}
}

// first takes a lease whose time has come; if there is none, it returns how long to wait.
func (g *guard) first(now core.Time) (*lease, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.due) > 0 {
		l := g.due[0]
		at := core.Time(l.guardAt.Load())
		switch {
		case l.until() == expired:
			heap.Pop(&g.due)
		case at > l.dueAt: // it was renewed
			l.dueAt = at
			heap.Fix(&g.due, 0)
		case at <= now:
			heap.Pop(&g.due)
			return l, 0
		default:
			return nil, min(time.Duration(at-now), guardCheck)
		}
	}

	return nil, math.MaxInt64
}

// leaseHeap is ordered by dueAt, which is never later than the time at which a lease is to be ended.
type leaseHeap []*lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].dueAt < h[j].dueAt }

func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place = i
	h[j].place = j
}

// Push is for container/heap.
func (h *leaseHeap) Push(x any) {
	l := x.(*lease)
	l.place = len(*h)
	*h = append(*h, l)
}

// Pop is for container/heap.
func (h *leaseHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	l.place = -1
	return l
}
