package driver

import (
	"encoding/base64"
	"strconv"
	"time"
)

// scanRecord reads a record in the very form in which AppendJSON writes it: these keys, in this order, with nothing between them and nothing escaped. Every read of a
// seat goes through here, and with 32 past terms encoding/json takes ten times as long. For any other form it gives up.
func scanRecord(b []byte) (l Record, ok bool) {
	s := &scan{b: b, ok: true}
	s.want(`{"epoch":`)
	l.Epoch = s.number()
	s.want(`,"nonce":"`)
	l.Nonce = s.hex()
	s.want(`,"duration":"`)
	l.Duration = s.duration()
	l.Holder.ID = s.field(`,"holder":"`)
	l.Holder.Incarnation = s.field(`,"incarnation":"`)
	l.Addr = s.field(`,"addr":"`)
	l.Via = s.field(`,"via":"`)
	l.Next = s.field(`,"next":"`)
	if s.has(`,"edits":`) {
		l.Edits = s.number()
	}
	l.Paused = s.has(`,"paused":true`)
	if s.has(`,"since":"`) {
		l.Since = s.time()
	}
	if s.has(`,"data":"`) {
		l.Data = s.base64()
	}
	if s.has(`,"past":[`) {
		l.Past = s.past()
	}
	s.want("}")
	return l, s.ok && len(s.b) == 0
}

// scan is what is left to read, and whether all before it made sense.
type scan struct {
	b  []byte
	ok bool
}

func (s *scan) has(text string) bool {
	if len(s.b) < len(text) || string(s.b[:len(text)]) != text {
		return false
	}
	s.b = s.b[len(text):]
	return true
}

func (s *scan) want(text string) { s.ok = s.has(text) && s.ok }

// text returns what comes before the next quote. Anything that would have to be looked at more closely is not for here.
func (s *scan) text() []byte {
	for i, c := range s.b {
		switch {
		case c == '"':
			t := s.b[:i]
			s.b = s.b[i+1:]
			return t
		case c == '\\' || c < ' ' || c > '~':
			s.ok = false
			return nil
		}
	}
	s.ok = false
	return nil
}

// field returns the value of a key that may be left out.
func (s *scan) field(key string) string {
	if !s.has(key) {
		return ""
	}
	return string(s.text())
}

func (s *scan) number() uint64 {
	n := 0
	for n < len(s.b) && s.b[n] >= '0' && s.b[n] <= '9' {
		n++
	}
	if n > 1 && s.b[0] == '0' { // which is no JSON
		s.ok = false
	}
	v, err := strconv.ParseUint(string(s.b[:n]), 10, 64)
	s.ok = s.ok && err == nil
	s.b = s.b[n:]
	return v
}

func (s *scan) hex() uint64 {
	v, err := strconv.ParseUint(string(s.text()), 16, 64)
	s.ok = s.ok && err == nil
	return v
}

func (s *scan) duration() time.Duration {
	d, err := time.ParseDuration(string(s.text()))
	s.ok = s.ok && err == nil && d >= 0
	return d
}

func (s *scan) time() (t time.Time) {
	s.ok = t.UnmarshalText(s.text()) == nil && s.ok
	return t
}

func (s *scan) base64() []byte {
	text := s.text()
	b := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(b, text)
	s.ok = s.ok && err == nil
	return b[:n]
}

// past reads the ended terms. A few members and a few reasons come again and again, and are kept once.
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
	for s.ok && !s.has("]") {
		if len(all) > 0 {
			s.want(",")
		}
		var p Past
		s.want(`{"epoch":`)
		p.Epoch = s.number()
		if s.has(`,"holder":"`) {
			p.Holder = known(s.text(), func(p Past) string { return p.Holder })
		}
		s.want(`,"began":"`)
		p.Began = s.time()
		s.want(`,"ended":"`)
		p.Ended = s.time()
		if s.has(`,"reason":"`) {
			p.Reason = known(s.text(), func(p Past) string { return p.Reason })
		}
		s.want("}")
		all = append(all, p)
	}
	return all
}
