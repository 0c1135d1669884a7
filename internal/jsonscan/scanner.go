// Package jsonscan reads JSON in the one form in which Regent writes it: known keys in a known order, no white space,
// no escapes. It is several times faster than encoding/json. A failed Scanner does not mean that its input is wrong:
// the caller must try encoding/json then.
package jsonscan

import "encoding/json"

// Scanner reads a text from its beginning. After the first failure the values that it returns are meaningless.
type Scanner struct {
	rest   []byte
	failed bool
}

// New returns a Scanner of b. b must not change while it is read.
func New(b []byte) Scanner { return Scanner{rest: b} }

// Fail makes Done return false.
func (s *Scanner) Fail() { s.failed = true }

// Done reports whether the whole text was read without a failure.
func (s *Scanner) Done() bool { return !s.failed && len(s.rest) == 0 }

// Len returns how many bytes are left.
func (s *Scanner) Len() int { return len(s.rest) }

// Has reads a text if it comes next, and reports whether it does.
func (s *Scanner) Has(text string) bool {
	if len(s.rest) < len(text) || string(s.rest[:len(text)]) != text {
		return false
	}
	s.rest = s.rest[len(text):]
	return true
}

// Want reads a text, and fails if it does not come next.
func (s *Scanner) Want(text string) {
	if !s.Has(text) {
		s.failed = true
	}
}

// Text reads a string without escapes. The result points into the input.
func (s *Scanner) Text() []byte {
	s.Want(`"`)
	for i, c := range s.rest {
		if !plain[c] {
			text := s.rest[:i]
			s.rest = s.rest[i:]
			s.Want(`"`)
			return text
		}
	}

	s.failed = true
	return nil
}

// Number reads a whole number that is not negative and has at most 18 digits.
func (s *Scanner) Number() uint64 {
	var n uint64
	i := 0
	for ; i < len(s.rest) && s.rest[i] >= '0' && s.rest[i] <= '9'; i++ {
		n = n*10 + uint64(s.rest[i]-'0')
	}

	if i == 0 || i > 18 || i > 1 && s.rest[0] == '0' {
		s.failed = true
		return 0
	}

	s.rest = s.rest[i:]
	return n
}

// Value reads any value. The result points into the input.
func (s *Scanner) Value() json.RawMessage {
	n := compactLen(s.rest, 0)
	if n == 0 {
		s.failed = true
	}
	v := s.rest[:n:n]
	s.rest = s.rest[n:]
	return v
}

// List reads the rest of an array whose opening bracket was read. It calls element for each element, and fails if there
// are more than most.
func (s *Scanner) List(most int, element func()) {
	if s.Has("]") {
		return
	}

	n := 1
	for element(); s.Has(",") && !s.failed; n++ {
		if n >= most {
			s.failed = true
			return
		}
		element()
	}

	s.Want("]")
}

// Plain reports whether s needs no escapes in a JSON string, so that Text can read it.
func Plain(s string) bool {
	for i := range len(s) {
		if !plain[s[i]] {
			return false
		}
	}
	return true
}

// plain are the bytes that need no escape in a string.
var plain = func() (is [256]bool) {
	for c := range is {
		is[c] = c >= ' ' && c <= '~' && c != '"' && c != '\\'
	}
	return is
}()
