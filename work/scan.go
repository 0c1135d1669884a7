package work

import (
	"bytes"
	"encoding/json"
	"math"
)

// scan reads JSON in exactly the form in which this package writes it, several times faster than encoding/json, to which everything else is left: bad
// says that it is not that form, which does not mean that it is wrong.
type scan struct {
	b    []byte // what is left
	bad  bool
	kind string // the last one: they repeat
}

// lit passes over a text, if it comes next.
func (s *scan) lit(text string) bool {
	if len(s.b) < len(text) || string(s.b[:len(text)]) != text {
		return false
	}
	s.b = s.b[len(text):]
	return true
}

func (s *scan) must(text string) {
	if !s.lit(text) {
		s.bad = true
	}
}

// text reads a string without escapes.
func (s *scan) text() []byte {
	s.must(`"`)
	for i, c := range s.b {
		if unplain[c] {
			text := s.b[:i]
			s.b = s.b[i:]
			s.must(`"`)
			return text
		}
	}
	s.bad = true
	return nil
}

func (s *scan) string() string { return string(s.text()) }

func (s *scan) kindly() string {
	if text := s.text(); string(text) != s.kind {
		s.kind = string(text)
	}
	return s.kind
}

// number reads one that is not negative and has less than 19 digits.
func (s *scan) number() uint64 {
	n, i := uint64(0), 0
	for ; i < len(s.b) && s.b[i] >= '0' && s.b[i] <= '9'; i++ {
		n = n*10 + uint64(s.b[i]-'0')
	}
	if i == 0 || i > 18 || i > 1 && s.b[0] == '0' {
		s.bad = true
		return 0
	}
	s.b = s.b[i:]
	return n
}

func (s *scan) int() int64 { return int64(s.number() & math.MaxInt64) }

// value reads any value.
func (s *scan) value() json.RawMessage {
	n := compactLen(s.b, 0)
	if n == 0 {
		s.bad = true
	}
	v := s.b[:n:n]
	s.b = s.b[n:]
	return v
}

// list reads what stands between brackets, the first of which was read: at most so many elements.
func (s *scan) list(most int, element func()) {
	if s.lit("]") {
		return
	}
	n := 1
	for element(); s.lit(",") && !s.bad; n++ {
		if n >= most {
			s.bad = true
			return
		}
		element()
	}
	s.must("]")
}

// all reports whether everything was read.
func (s *scan) all() bool { return !s.bad && len(s.b) == 0 }

// forget takes back what was read: encoding/json would leave parts of it as they are.
func forget[T any](into *T) bool {
	*into = *new(T)
	return false
}

// sharedBody is how large a request may be for its tasks to share it. One task may keep it from being freed for a long time.
const sharedBody = 64 << 10

// parse reports whether it could read the body, to which the payloads then point.
func (b *batch) parse(body []byte) bool {
	s := scan{b: body}
	s.must(`{"election":`)
	b.Election = s.string()
	s.must(`,"leader":`)
	b.Leader = s.string()
	s.must(`,"epoch":`)
	b.Epoch = s.number()
	if s.lit(`,"term":`) {
		b.Term = s.string()
	}
	s.must(`,"dispatchedMs":`)
	b.Dispatched = s.int()
	s.must(`,"tasks":[`)
	b.Tasks = make([]item, 0, min(maxBatch, len(s.b)/64)) // a fair guess
	s.list(math.MaxInt, func() { b.Tasks = append(b.Tasks, s.item(len(body) <= sharedBody)) })
	s.must(endBatch[1:])
	return s.all() || forget(b)
}

func (s *scan) item(share bool) (i item) {
	s.must(`{"id":`)
	i.ID = s.string()
	s.must(`,"kind":`)
	i.Kind = s.kindly()
	if s.lit(`,"timeoutMs":`) {
		i.TimeoutMs = s.int()
	}
	i.Idempotent = s.lit(`,"idempotent":true`)
	if s.lit(`,"tried":`) {
		i.Tried = s.string()
	}
	if s.lit(`,"payload":`) {
		if i.Payload = s.value(); !share {
			i.Payload = bytes.Clone(i.Payload)
		}
	}
	s.must(`}`)
	return i
}

// parse reports whether it could read the body, of which nothing is kept.
func (v *verdict) parse(body []byte) bool {
	s := scan{b: bytes.TrimSuffix(body, []byte("\n"))}
	s.must(`{"session":`)
	v.Session = s.string()
	s.must(`}`)
	return s.all() || forget(v)
}

// parse reports whether it could read the body, of which nothing is kept.
func (r *report) parse(body []byte) bool {
	s := scan{b: body}
	s.must(`{"session":`)
	r.Session = s.string()
	s.must(`,"next":`)
	r.Next = s.number()
	r.More = s.lit(`,"more":true`)
	if s.lit(`,"running":[`) {
		r.Running = []string{}
		s.list(maxRunning, func() { r.Running = append(r.Running, s.string()) })
	}
	s.must(`,"results":[`)
	r.Results = make([]outcome, 0, min(reportPage, len(s.b)/96))
	s.list(maxBatch, func() { r.Results = append(r.Results, s.outcome()) })
	s.must(`}`)
	return s.all() || forget(r)
}

func (s *scan) outcome() (o outcome) {
	s.must(`{"id":`)
	o.ID = s.string()
	s.must(`,"kind":`)
	o.Kind = s.kindly()
	s.must(`,"epoch":`)
	o.Epoch = s.number()
	s.must(`,"outcome":`)
	if how := s.text(); string(how) == string(Done) {
		o.Outcome = Done
	} else {
		o.Outcome = Outcome(how)
	}
	if s.lit(`,"error":`) {
		o.Error = s.string()
	}
	if s.lit(`,"data":`) {
		o.Data = bytes.Clone(s.value())
	}
	s.must(`,"beganMs":`)
	o.BeganMs = s.int()
	s.must(`,"tookUs":`)
	o.TookUs = s.int()
	s.must(`}`)
	return o
}
