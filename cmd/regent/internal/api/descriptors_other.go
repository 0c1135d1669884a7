//go:build !unix

package api

// descriptors returns how many files this process may have open.
func descriptors() int { return 2 * maxConnections }
