package redis

import (
	"strconv"
	"strings"

	"github.com/regentd/regent/driver"
)

// This file is about leases that another run of the server has written: see @ in get.lua. This run
// cannot know which renewals were lost, nor when the last one was sent. So whoever is not the
// holder waits for a whole lease from when it first read the record from this run, whatever it has
// read before. For that the record is shown to it under another revision and another nonce than
// before the failover: an observer that saw neither change would go on counting from before the
// renewals that were lost. The holder is shown the nonce that it wrote, by which it knows that it
// may go on.

// claims takes in that this Store is going to write a lease for a holder.
func (s *Store) claims(l driver.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimed[l.Name] = l.Holder
}

// shownNonce returns the nonce that a record is read with which another run of the server has
// written.
func (s *Store) shownNonce(l driver.Record) uint64 {
	s.mu.Lock()
	own := s.claimed[l.Name] == l.Holder
	s.mu.Unlock()
	if own {
		return l.Nonce
	}
	return l.Nonce ^ runOf(l.Rev)
}

// writtenNonce undoes shownNonce for an edit, which keeps the nonce of the record at that revision.
func (s *Store) writtenNonce(rev string, l driver.Record) uint64 {
	if run := runOf(rev); run != 0 && replaces(rev, l.Nonce^run) {
		return l.Nonce ^ run
	}
	return l.Nonce
}

// runOf returns the server's ID that a revision is marked with, as a number, or 0.
func runOf(rev string) uint64 {
	_, id, marked := strings.Cut(rev, "@")
	if !marked {
		return 0
	}
	run, _ := strconv.ParseUint(id, 16, 64)
	return run
}
