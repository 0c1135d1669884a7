//go:build unix && !aix && (!solaris || illumos)

package work

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/regentd/regent/internal/regular"
)

// lockJournal locks a journal against other processes and other workers of this process. The kernel frees the lock when
// the process ends. The lock has a file of its own, because the file of the journal is replaced.
func lockJournal(journal string) (*os.File, error) {
	f, err := regular.Open(journal+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock journal: %w", err)
	}

	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}

	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = fmt.Errorf("journal %s: %w", journal, ErrInUse)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.ENOLCK): // a file system without locks
		return f, nil
	case err != nil:
		err = fmt.Errorf("lock journal: %w", err)
	default:
		return f, nil
	}

	return nil, errors.Join(err, f.Close())
}
