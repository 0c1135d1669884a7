package shell

import (
	crand "crypto/rand"
	"math/rand/v2"
	"time"
)

// Source is the core.Source of a real process.
type Source struct{}

// Nonce returns a random number.
func (Source) Nonce() uint64 { return rand.Uint64() }

// Incarnation returns a random name.
func (Source) Incarnation() string { return crand.Text() }

// Wall returns the wall clock.
func (Source) Wall() time.Time { return time.Now() }
