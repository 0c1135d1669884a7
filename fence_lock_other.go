//go:build !unix || aix || (solaris && !illumos)

package regent

// lockFence keeps nobody from the file where the system has no flock: see the comment of
// Fence.Path.
func lockFence(string) (unlock func(), err error) { return func() {}, nil }
