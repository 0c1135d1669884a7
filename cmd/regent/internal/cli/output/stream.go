package output

import (
	"fmt"
	"io"
	"sync"
)

// Stream is a stream that remembers its first failed write: a full disk must not pass for an empty answer.
type Stream struct {
	out io.Writer

	mu  sync.Mutex
	err error
}

// NewStream returns a stream that writes to out.
func NewStream(out io.Writer) *Stream { return &Stream{out: out} }

// Write implements [io.Writer].
func (s *Stream) Write(p []byte) (int, error) {
	n, err := s.out.Write(p)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err == nil {
			s.err = fmt.Errorf("standard output could not be written: %w", err)
		}
	}
	return n, err
}

// Err returns the error of the first failed write, or nil.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Beneath returns what a [Stream] writes to, and any other stream as it is.
func Beneath(out io.Writer) io.Writer {
	if s, ok := out.(*Stream); ok {
		return s.out
	}
	return out
}
