//go:build unix && !aix && (!solaris || illumos)

package regent

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/regentd/regent/internal/regular"
)

// lockFence keeps other processes, and other fences of this one, from raising the file at path
// until unlock is called. The lock is the kernel's, so that it ends with the process. It has a file
// of its own, since that of the fence is replaced.
func lockFence(path string) (unlock func(), err error) {
	f, err := regular.Open(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock fence: %w", err)
	}

	// Tried again and again instead of waited for: a process that was stopped (SIGSTOP) while it
	// holds the lock must not stop this one too.
	for end := time.Now().Add(lockTimeout); ; time.Sleep(time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		busy := errors.Is(err, syscall.EWOULDBLOCK)
		if !busy && !errors.Is(err, syscall.EINTR) {
			break
		}
		if busy && time.Now().After(end) {
			err = fmt.Errorf("another process has held it for %v", lockTimeout)
			break
		}
	}

	// A file system without locks is not the user's fault: see the comment of Fence.Path.
	if err == nil || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK) {
		return func() { _ = f.Close() }, nil
	}
	return nil, errors.Join(fmt.Errorf("lock fence: %s: %w", f.Name(), err), f.Close())
}
