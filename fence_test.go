package regent_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/virtual"
)

// epoch is a token that names no term.
func epoch(n uint64) regent.Token { return regent.Token{Epoch: n} }

// stale fails unless the error says that an epoch was refused, and for which.
func stale(t *testing.T, err error, epoch, newest uint64) {
	t.Helper()
	var s *regent.StaleError
	if !errors.As(err, &s) || s.Epoch != epoch || s.Newest != newest {
		t.Errorf("got %v, want epoch %d refused for %d", err, epoch, newest)
	}
}

func TestFence(t *testing.T) {
	t.Run("E01_an_older_epoch_is_refused_and_counted_and_the_error_names_the_newer_one", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			m := c.member("worker")
			f := m.Fence("seat")
			check(t, f.Admit(epoch(6)))
			stale(t, f.Admit(epoch(5)), 5, 6)
			if got := m.Stats().EpochDriftEvents; got != 1 {
				t.Errorf("%d drifts counted", got)
			}
			if f.Refused() != 1 {
				t.Errorf("%d refusals counted", f.Refused())
			}
		})
	})

	t.Run("E02_a_newer_epoch_is_taken_and_remembered", func(t *testing.T) {
		var f regent.Fence
		check(t, f.Admit(epoch(6)))
		check(t, f.Admit(epoch(7)))
		check(t, f.Admit(epoch(7)))
		stale(t, f.Admit(epoch(6)), 6, 7)
	})

	t.Run("E03_a_fence_that_is_off_admits_everything", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			m := c.member("worker", config(regent.Cluster(), func(c *regent.Config) { c.EpochFencingOff = true }))
			f := m.Fence("seat")
			for _, e := range []uint64{9, 3, 0, 8} {
				check(t, f.Admit(epoch(e)))
			}
			if m.Stats().EpochDriftEvents != 0 {
				t.Error("something was counted")
			}
		})
	})

	t.Run("E04_a_members_fence_learns_the_epoch_with_the_change_of_leaders", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			w := c.member("w", config(regent.Cluster(), func(c *regent.Config) { c.Ineligible = true })).lead()
			f := w.Fence("seat")
			time.Sleep(time.Second)
			check(t, f.Admit(epoch(1)))
			check(t, a.StepDown(c.ctx, "seat"))
			leader(t, 10*time.Second, a)
			time.Sleep(time.Second)
			stale(t, f.Admit(epoch(1)), 1, 2)
			a.quit()
			w.quit()
		})
	})

	t.Run("E11_idempotent_work_of_the_last_epoch_is_taken_within_the_grace", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			late := 0
			f := regent.Fence{Grace: 5 * time.Second, OnLate: func(epoch, newest uint64, age time.Duration) {
				if epoch != 6 || newest != 7 || age > 5*time.Second {
					t.Errorf("late: %d %d %v", epoch, newest, age)
				}

				late++
			}}
			check(t, f.Admit(epoch(6)))
			time.Sleep(time.Minute)
			sent := time.Now()
			check(t, f.Admit(epoch(7)))
			check(t, f.AdmitLate(epoch(6), sent, true))
			stale(t, f.AdmitLate(epoch(6), sent, false), 6, 7)                    // it writes
			stale(t, f.AdmitLate(epoch(6), sent.Add(-6*time.Second), true), 6, 7) // dispatched too long ago
			stale(t, f.AdmitLate(epoch(6), sent.Add(time.Hour), true), 6, 7)      // from the future
			time.Sleep(4 * time.Second)
			check(t, f.AdmitLate(epoch(6), sent, true))
			time.Sleep(2 * time.Second)
			stale(t, f.AdmitLate(epoch(6), time.Now(), true), 6, 7) // the new epoch has been known for too long
			if late != 2 || f.Late() != 2 || f.Refused() != 4 {
				t.Errorf("%d, %d late, %d refused", late, f.Late(), f.Refused())
			}
		})
	})

	t.Run("E12_older_than_the_last_epoch_has_no_grace", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			f := regent.Fence{Grace: 5 * time.Second}
			check(t, f.Admit(epoch(7)))
			stale(t, f.AdmitLate(epoch(5), time.Now(), true), 5, 7)
		})
	})

	t.Run("E13_the_highest_epoch_survives_a_restart", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "fence")
		check(t, (&regent.Fence{Path: path}).Admit(epoch(41)))
		again := &regent.Fence{Path: path}
		stale(t, again.Admit(epoch(40)), 40, 41)
		check(t, again.Admit(epoch(42)))
		check(t, (&regent.Fence{Path: path}).Learn(epoch(43)))
		if h, err := (&regent.Fence{Path: path}).Highest(); h != epoch(43) || err != nil {
			t.Errorf("highest is %v, %v", h, err)
		}
	})

	t.Run("E13_a_file_that_cannot_be_read_or_written_admits_nothing", func(t *testing.T) {
		dir := t.TempDir()
		garbage := filepath.Join(dir, "garbage")
		check(t, os.WriteFile(garbage, []byte("seven"), 0o600))
		if err := (&regent.Fence{Path: garbage}).Admit(epoch(7)); err == nil ||
			!strings.Contains(err.Error(), garbage) {
			t.Errorf("got %v", err)
		}

		if b, _ := os.ReadFile(garbage); string(b) != "seven" {
			t.Error("the file was overwritten")
		}
		if err := (&regent.Fence{Path: filepath.Join(dir, "no", "such", "place")}).Admit(epoch(7)); err == nil {
			t.Error("an epoch was admitted that could not be kept")
		}
	})

	t.Run("a_jump_of_more_than_one_epoch_must_be_confirmed", func(t *testing.T) {
		no := errors.New("the store shows 3")
		f := regent.Fence{Confirm: func(t regent.Token) error {
			if t.Epoch > 5 {
				return no
			}
			return nil
		}}
		check(t, f.Admit(epoch(1)))
		check(t, f.Admit(epoch(2)))
		check(t, f.Admit(epoch(5)))
		if err := f.Admit(epoch(1 << 60)); !errors.Is(err, no) {
			t.Errorf("got %v", err)
		}

		check(t, f.Admit(epoch(6)))
	})

	t.Run("epoch_zero_is_no_epoch", func(t *testing.T) {
		if err := new(regent.Fence).Admit(epoch(0)); err == nil {
			t.Error("admitted")
		}
	})

	t.Run("admitted_epochs_never_fall_under_concurrency", func(t *testing.T) {
		var f regent.Fence
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 2000 {
					e := rand.Uint64N(1000) + 1
					mu.Lock() // so that what was admitted before is known
					before, _ := f.Highest()
					mu.Unlock()
					if err := f.Admit(epoch(e)); err == nil && e < before.Epoch {
						t.Errorf("%d admitted after %v", e, before)
					}
				}
			})
		}

		wg.Wait()
	})
}
