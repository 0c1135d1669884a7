package work

import (
	"bytes"
	"math"

	"github.com/regentd/regent/internal/jsonscan"
)

// scan reads requests and answers in the one form in which this package writes them.
type scan struct {
	jsonscan.Scanner
	kind string // the last kind: kinds repeat
}

func newScan(b []byte) scan { return scan{Scanner: jsonscan.New(b)} }

func (s *scan) string() string { return string(s.Text()) }

// kindOf reads the kind of a task. Equal kinds share one string.
func (s *scan) kindOf() string {
	if text := s.Text(); string(text) != s.kind {
		s.kind = string(text)
	}
	return s.kind
}

func (s *scan) int() int64 { return int64(s.Number()) } // of at most 18 digits

// forget clears what was read: encoding/json would keep parts of it.
func forget[T any](into *T) bool {
	*into = *new(T)
	return false
}

// sharedBody is the largest request that its tasks may point into. One task can keep all of it from being freed.
const sharedBody = 64 << 10

// parse reports whether it could read the body. The payloads point into body.
func (b *batch) parse(body []byte) bool {
	s := newScan(body)
	s.Want(`{"election":`)
	b.Election = s.string()
	s.Want(`,"leader":`)
	b.Leader = s.string()
	s.Want(`,"epoch":`)

	b.Epoch = s.Number()
	if s.Has(`,"term":`) {
		b.Term = s.string()
	}

	s.Want(`,"dispatchedMs":`)
	b.Dispatched = s.int()
	s.Want(`,"tasks":[`)
	b.Tasks = make([]wireTask, 0, min(maxBatch, s.Len()/64)) // an estimate
	s.List(math.MaxInt, func() { b.Tasks = append(b.Tasks, s.task(len(body) <= sharedBody)) })
	s.Want(endBatch[1:])

	return s.Done() || forget(b)
}

func (s *scan) task(share bool) (i wireTask) {
	s.Want(`{"id":`)
	i.ID = s.string()
	s.Want(`,"kind":`)
	i.Kind = s.kindOf()
	if s.Has(`,"timeoutMs":`) {
		i.TimeoutMs = s.int()
	}

	i.Idempotent = s.Has(`,"idempotent":true`)
	if s.Has(`,"tried":`) {
		i.Tried = s.string()
	}

	if s.Has(`,"payload":`) {
		i.Payload = s.Value()
		if !share {
			i.Payload = bytes.Clone(i.Payload)
		}
	}

	s.Want(`}`)
	return i
}

// parse reports whether it could read the body. Nothing points into body.
func (v *receipt) parse(body []byte) bool {
	s := newScan(bytes.TrimSuffix(body, []byte("\n")))
	s.Want(`{"session":`)
	v.Session = s.string()
	s.Want(`}`)
	return s.Done() || forget(v)
}

// parse reports whether it could read the body. Nothing points into body.
func (r *report) parse(body []byte) bool {
	s := newScan(body)
	s.Want(`{"session":`)
	r.Session = s.string()
	s.Want(`,"next":`)
	r.Next = s.Number()
	r.More = s.Has(`,"more":true`)

	if s.Has(`,"running":[`) {
		r.Running = []string{}
		s.List(maxRunning, func() { r.Running = append(r.Running, s.string()) })
	}

	s.Want(`,"results":[`)
	r.Results = make([]wireResult, 0, min(reportPage, s.Len()/96))
	s.List(maxBatch, func() { r.Results = append(r.Results, s.result()) })
	s.Want(`}`)

	return s.Done() || forget(r)
}

func (s *scan) result() (o wireResult) {
	s.Want(`{"id":`)
	o.ID = s.string()
	s.Want(`,"kind":`)
	o.Kind = s.kindOf()
	s.Want(`,"epoch":`)
	o.Epoch = s.Number()

	s.Want(`,"outcome":`)
	if how := s.Text(); string(how) == string(Done) {
		o.Outcome = Done
	} else {
		o.Outcome = Outcome(how)
	}

	if s.Has(`,"error":`) {
		o.Error = s.string()
	}

	if s.Has(`,"data":`) {
		o.Data = bytes.Clone(s.Value())
	}

	s.Want(`,"beganMs":`)
	o.BeganMs = s.int()
	s.Want(`,"tookUs":`)
	o.TookUs = s.int()
	s.Want(`}`)

	return o
}
