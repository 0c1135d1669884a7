//go:build !unix || aix || (solaris && !illumos)

package work

import "os"

// lock keeps nobody from a journal where the system has no such lock.
func lock(string) (*os.File, error) { return nil, nil }
