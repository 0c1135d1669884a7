package virtual

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestExpiredTimers crashes the race detector of Go 1.26 within a second, in most runs, if bubbles have several
// processors.
func TestExpiredTimers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.NumCPU())))

	for range 5 {
		Test(t, func(*testing.T) {
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					for range 100 {
						timer := time.NewTimer(time.Millisecond)
						time.Sleep(2 * time.Millisecond)
						<-timer.C
					}
				})
			}

			wg.Wait()
		})
	}
}

func TestProcessors(t *testing.T) {
	const several = 3
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(several))

	inside := several
	if Raced {
		inside = 1
	}

	t.Run("parallel", func(t *testing.T) {
		for range 20 {
			t.Run("bubble", func(t *testing.T) {
				t.Parallel()
				Test(t, func(t *testing.T) {
					time.Sleep(time.Second)
					if n := runtime.GOMAXPROCS(0); n != inside {
						t.Errorf("a bubble has %d processors, want %d", n, inside)
					}
				})
			})
		}
	})

	if n := runtime.GOMAXPROCS(0); n != several {
		t.Errorf("after the last bubble there are %d processors, want %d", n, several)
	}

	t.Run("a_test_that_ends_early_restores_them", func(t *testing.T) {
		Test(t, func(t *testing.T) { t.SkipNow() })
	})

	if n := runtime.GOMAXPROCS(0); n != several {
		t.Errorf("after a test that ended early there are %d processors, want %d", n, several)
	}
}
