//go:build race

package virtual

// Raced reports whether the race detector is on.
const Raced = true
