//go:build !unix || aix || (solaris && !illumos)

package work

import "os"

// lockJournal does nothing on a system without file locks.
func lockJournal(string) (*os.File, error) { return nil, nil }
