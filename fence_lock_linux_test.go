package regent_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/virtual"
)

func TestFenceLock(t *testing.T) {
	t.Run("a_process_that_is_stopped_while_it_raises_does_not_stop_another_one", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "fence")
			f := &regent.Fence{Path: path}
			check(t, f.Admit(of("a", 6)))

			other, err := os.OpenFile(path+".lock", os.O_RDWR, 0)
			check(t, err)
			defer other.Close()
			check(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))

			before := time.Now()
			err = f.Admit(of("b", 7))
			if err == nil || !strings.Contains(err.Error(), path+".lock") || time.Since(before) > 3*time.Second {
				t.Errorf("after %v: %v", time.Since(before), err)
			}

			check(t, f.Admit(of("a", 6)))

			check(t, syscall.Flock(int(other.Fd()), syscall.LOCK_UN))
			check(t, f.Admit(of("b", 7)))
		})
	})

	t.Run("the_lock_is_exclusive", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "fence")
			f := &regent.Fence{Path: path}
			check(t, f.Admit(of("a", 6)))

			other, err := os.OpenFile(path+".lock", os.O_RDWR, 0)
			check(t, err)
			defer other.Close()
			check(t, syscall.Flock(int(other.Fd()), syscall.LOCK_SH))

			if err := f.Admit(of("b", 7)); err == nil {
				t.Error("it was raised beside another lock")
			}
		})
	})
}
