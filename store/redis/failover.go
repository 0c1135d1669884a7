package redis

import (
	"strconv"
	"strings"

	"github.com/regentd/regent/driver"
)

// This file handles leases that another run of the server has written: see @ in get.lua. This run cannot know which
// renewals were lost, nor when the last one was sent. So everybody but the holder waits for a whole lease from when it
// first read the record from this run. For that it gets the record with another revision and another nonce than before
// the failover: otherwise it would go on counting from before the lost renewals. The holder gets the nonce that it
// wrote, and goes on.

// noteClaim records that this Store writes a lease for a holder.
func (s *Store) noteClaim(l driver.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimed[l.Name] = l.Holder
}

// shownNonce returns the nonce for a record that another run of the server has written.
func (s *Store) shownNonce(l driver.Record) uint64 {
	s.mu.Lock()
	own := s.claimed[l.Name] == l.Holder
	s.mu.Unlock()

	if own {
		return l.Nonce
	}
	return l.Nonce ^ runOf(l.Rev)
}

// writtenNonce is the inverse of shownNonce, for an edit: it keeps the nonce of the record at that revision.
func (s *Store) writtenNonce(rev string, l driver.Record) uint64 {
	if run := runOf(rev); run != 0 && replaces(rev, l.Nonce^run) {
		return l.Nonce ^ run
	}
	return l.Nonce
}

// runOf returns the server's ID in a revision as a number, or 0.
func runOf(rev string) uint64 {
	_, id, marked := strings.Cut(rev, "@")
	if !marked {
		return 0
	}
	run, _ := strconv.ParseUint(id, 16, 64)
	return run
}
