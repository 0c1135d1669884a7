package poll

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// catchUp is how late a slot may be and still be run. The newest one that is due is run however late it is.
const catchUp = time.Minute

// mostCounted is how many times of a cron expression are gone through: a week of minutes.
const mostCounted = 10_080

// longestPause is the most by which late slots of a poll are spread.
const longestPause = 30 * time.Second

// entry is a poll and its slots.
type entry struct {
	poll    Poll
	sched   Schedule
	fixed   bool // it comes from the configuration file
	payload []byte
	next    time.Time // when the first slot that was not released is due; zero if never
	place   int       // in the heap, or -1

	queue     []*slot // released, and not sent; in order of their due times
	out       []*slot // sent, and not ended
	notBefore time.Time
	pause     time.Time      // nobody takes what it has: not before
	ahead     map[int64]bool // slots from next on that are known to be done, or to be with a worker: an earlier leader's clock was ahead
	listed    bool           // among those with something to send
	ran       time.Time      // when it last ran, or was entered, by the clock that is never set
	problem   string         // why nobody takes what it has; empty if somebody does

	record
}

func newEntry(p Poll, fixed bool) (*entry, error) {
	e := &entry{poll: p, fixed: fixed, place: -1}
	var err error
	e.sched, err = p.Schedule()
	e.write()
	return e, err
}

// write prepares what a worker is told, but for the due time.
func (e *entry) write() {
	b, _ := json.Marshal(struct {
		Poll    string            `json:"poll"`
		Target  string            `json:"target"`
		Options map[string]string `json:"options,omitempty"`
		Timeout int64             `json:"timeoutMs"`
	}{e.poll.Name, e.poll.Target, e.poll.Options, time.Duration(e.poll.Timeout).Milliseconds()}) // it holds nothing that JSON cannot hold
	e.payload = append(b[:len(b)-1], `,"due":`...)
}

func (e *entry) job(s *slot) json.RawMessage {
	b := make([]byte, 0, len(e.payload)+16)
	b = append(b, e.payload...)
	b = strconv.AppendInt(b, s.due, 10)
	return append(b, '}')
}

// begin sets the first slot that is due after from, and returns how many before it are too late to be run.
func (e *entry) begin(from, now time.Time) (missed uint64) {
	if e.next = e.sched.Next(from); !e.poll.Enabled {
		e.next = time.Time{}
	}
	horizon := now.Add(-catchUp)
	if e.next.IsZero() || !e.next.Before(horizon) {
		return 0
	}
	to := e.sched.Next(horizon)
	if to.IsZero() || to.After(now) {
		to = e.newest(from, now)
	}
	if interval := time.Duration(e.poll.Interval); interval > 0 {
		missed = uint64(to.Sub(e.next) / interval)
	} else {
		// The times of a cron expression have to be gone through. Beyond some number it is enough to know that they are many.
		for t := e.next; t.Before(to) && missed < mostCounted; t = e.sched.Next(t) {
			missed++
		}
	}
	e.next = to
	return missed
}

// newest is the last time at which the poll was due, of those after from, of which there is one. It looks further and further back.
func (e *entry) newest(from, now time.Time) time.Time {
	for back := catchUp; ; back *= 2 {
		since := now.Add(-back)
		if since.Before(from) {
			since = from
		}
		due := e.sched.Next(since)
		if due.After(now) {
			continue
		}
		for next := due; !next.IsZero() && !next.After(now); next = e.sched.Next(next) {
			due = next
		}
		return due
	}
}

// release makes a slot of the time that is due, unless it is known to be done, and moves on to the next.
func (e *entry) release() *slot {
	due := e.next.UnixMilli()
	e.next = e.sched.Next(e.next)
	if e.ahead[due] {
		delete(e.ahead, due)
		return nil
	}
	s := &slot{entry: e, due: due}
	e.queue = append(e.queue, s)
	return s
}

// trim drops the slots that wait and are too late to be run: all that are older than a minute, but for the newest.
func (e *entry) trim(now time.Time) (late []*slot) {
	newest := int64(0)
	for _, s := range e.queue {
		if !s.manual {
			newest = max(newest, s.due)
		}
	}
	e.queue = slices.DeleteFunc(e.queue, func(s *slot) bool {
		if s.manual || s.due == newest || now.Sub(s.dueTime()) <= catchUp {
			return false
		}
		s.settled = true
		late = append(late, s)
		return true
	})
	return late
}

// find returns the open slot of a time.
func (e *entry) find(i identity) *slot {
	same := func(s *slot) bool { return s.due == i.due && s.manual == i.manual && s.again == i.again }
	if n := slices.IndexFunc(e.queue, same); n >= 0 {
		return e.queue[n]
	}
	if n := slices.IndexFunc(e.out, same); n >= 0 {
		return e.out[n]
	}
	return nil
}

// sendable returns the slot to send next, or when there may be one. A slot in doubt lets those behind it pass.
func (e *entry) sendable(now time.Time, doubt func(*slot) time.Time) (s *slot, next time.Time) {
	if now.Before(e.pause) {
		return nil, e.pause
	}
	for _, s := range e.queue {
		until := doubt(s)
		switch {
		case s.manual:
			return s, time.Time{}
		case now.Before(until):
			if next.IsZero() || until.Before(next) {
				next = until
			}
			continue
		case len(e.out) >= e.poll.Concurrency:
			return nil, next
		case now.Before(e.notBefore):
			return nil, e.notBefore
		}
		return s, time.Time{}
	}
	return nil, next
}

// took follows the sending of a slot. Those behind it are late, and wait half an interval each: a target that was away is not met by a burst.
func (e *entry) took(s *slot, now time.Time) {
	e.drop(s)
	e.out = append(e.out, s)
	behind := slices.IndexFunc(e.queue, func(o *slot) bool { return !o.manual && o.due > s.due })
	if behind >= 0 && !s.manual {
		e.notBefore = now.Add(min(e.queue[behind].dueTime().Sub(s.dueTime())/2, longestPause))
	}
}

// putBack queues a slot again, in its place.
func (e *entry) putBack(s *slot) {
	e.drop(s)
	n, _ := slices.BinarySearchFunc(e.queue, s, func(a, b *slot) int {
		switch {
		case a.manual != b.manual && a.manual:
			return -1
		case a.manual != b.manual:
			return 1
		}
		return cmp.Compare(a.due, b.due)
	})
	e.queue = slices.Insert(e.queue, n, s)
}

// drop takes a slot out of both lists.
func (e *entry) drop(s *slot) {
	same := func(o *slot) bool { return o == s }
	e.queue = slices.DeleteFunc(e.queue, same)
	e.out = slices.DeleteFunc(e.out, same)
}

// dueHeap orders entries by their next slots.
type dueHeap []*entry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].next.Before(h[j].next) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}
func (h *dueHeap) Push(x any) {
	e := x.(*entry)
	e.place = len(*h)
	*h = append(*h, e)
}
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.place = -1
	return e
}

// reserve takes a slot that is not due yet.
func (e *entry) reserve(s *slot) {
	if e.ahead == nil {
		e.ahead = map[int64]bool{}
	}
	e.ahead[s.due] = true
	e.putBack(s)
}
