package driver

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"github.com/regentd/regent/internal/jsonscan"
)

// scanRecord reads a record in the one form in which AppendJSON writes it. For any other form ok is false. Every read
// of an election goes through here, and with 32 past terms encoding/json takes six times as long.
func scanRecord(b []byte) (l Record, ok bool) {
	s := &scan{jsonscan.New(b)}
	s.Want(`{"epoch":`)
	l.Epoch = s.Number()
	s.Want(`,"nonce":`)
	l.Nonce = s.hex()
	s.Want(`,"duration":`)

	l.Duration = s.duration()
	l.Holder.ID = s.field(`,"holder":`)
	l.Holder.Incarnation = s.field(`,"incarnation":`)
	l.Addr = s.field(`,"addr":`)
	l.Via = s.field(`,"via":`)
	l.Next = s.field(`,"next":`)

	if s.Has(`,"edits":`) {
		l.Edits = s.Number()
	}

	l.Paused = s.Has(`,"paused":true`)
	if s.Has(`,"since":`) {
		l.Since = s.time()
	}

	if s.Has(`,"data":`) {
		l.Data = s.base64()
	}

	if s.Has(`,"terms":`) {
		var err error
		l.Past, err = parsePast(s.Text())
		s.check(err == nil)
	}

	if l.Past == nil && s.Has(`,"past":[`) { // of a version that wrote the terms at length
		l.Past = s.past()
	}

	s.Want("}")
	return l, s.Done()
}

// scan reads the values of a record.
type scan struct{ jsonscan.Scanner }

// check fails the scan if a value does not have its type.
func (s *scan) check(ok bool) {
	if !ok {
		s.Fail()
	}
}

// field returns the value of an optional key.
func (s *scan) field(key string) string {
	if !s.Has(key) {
		return ""
	}
	return string(s.Text())
}

func (s *scan) hex() uint64 {
	v, err := strconv.ParseUint(string(s.Text()), 16, 64)
	s.check(err == nil)
	return v
}

func (s *scan) duration() time.Duration {
	d, err := time.ParseDuration(string(s.Text()))
	s.check(err == nil && d >= 0)
	return d
}

func (s *scan) time() (t time.Time) {
	s.check(t.UnmarshalText(s.Text()) == nil)
	return t
}

func (s *scan) base64() []byte {
	text := s.Text()
	b := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(b, text)
	s.check(err == nil)
	return b[:n]
}

// past reads the ended terms. Members and reasons repeat, so equal strings are kept once.
func (s *scan) past() []Past {
	all := make([]Past, 0, MaxPast)
	known := func(text []byte, of func(Past) string) string {
		for i := len(all) - 1; i >= 0 && i >= len(all)-4; i-- {
			if had := of(all[i]); had == string(text) {
				return had
			}
		}
		return string(text)
	}

	s.List(math.MaxInt, func() {
		var p Past
		s.Want(`{"epoch":`)
		p.Epoch = s.Number()
		if s.Has(`,"holder":`) {
			p.Holder = known(s.Text(), func(p Past) string { return p.Holder })
		}

		s.Want(`,"began":`)
		p.Began = s.time()
		s.Want(`,"ended":`)
		p.Ended = s.time()
		if s.Has(`,"reason":`) {
			p.Reason = known(s.Text(), func(p Past) string { return p.Reason })
		}

		s.Want("}")
		all = append(all, p)
	})

	return all
}
