package memstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// count counts notifications until ctx ends.
func count(ctx context.Context, notices <-chan driver.Record) (n int) {
	for {
		select {
		case <-notices:
			n++
		case <-ctx.Done():
			return n
		}
	}
}

func TestNotices(t *testing.T) {
	const changes = 10
	// change hands over a register, or only renews it, once a minute, with a subscriber that has the given faults.
	woken := func(t *testing.T, f memstore.Faults, hands bool) (n int) {
		virtual.Test(t, func(t *testing.T) {
			s := memstore.New()
			ctx := within(t, changes*time.Minute+time.Minute)
			notices := s.Client("c", f).Subscribe(ctx, driver.Prefix("sea"))
			go func() {
				l := seat(1)
				for range changes {
					time.Sleep(time.Minute)
					if l.Nonce++; hands {
						l.Epoch++
					}

					next, err := s.Swap(ctx, l)
					if err != nil {
						t.Error(err)
						return
					}

					l = next
				}
			}()

			n = count(ctx, notices)
		})

		return n
	}

	for _, tt := range []struct {
		name  string
		f     memstore.Faults
		hands bool
		want  int
	}{
		{"a_change_of_hands_wakes_once", memstore.Faults{}, true, changes},
		{"renewals_wake_nobody_but_the_first_write_does", memstore.Faults{}, false, 1},
		{"notices_may_be_lost", memstore.Faults{LoseNotice: 1}, true, 0},
		{"notices_may_come_twice", memstore.Faults{DoubleNotice: 1}, true, 2 * changes},
		{"notices_may_be_late", memstore.Faults{NoticeDelay: always(90 * time.Second)}, true, changes - 1},
		{"renewals_may_wake_for_nothing", memstore.Faults{SpuriousNotice: 1}, false, changes},
		{"a_partition_cuts_notices", memstore.Faults{CutAnswers: true}, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := woken(t, tt.f, tt.hands); got != tt.want {
				t.Errorf("woken %d times, want %d", got, tt.want)
			}
		})
	}
}

func TestANoticeIsThereBeforeItsSwapIsAnswered(t *testing.T) {
	bubble(t, "and_none_after_the_context", func(t *testing.T, s *memstore.Store, l driver.Record) {
		ctx, cancel := context.WithCancel(t.Context())
		notices := s.Subscribe(ctx, driver.Prefix(""))
		for range 3 {
			l.Epoch++
			l, _ = s.Swap(t.Context(), l)
		}

		if len(notices) != 1 {
			t.Errorf("%d notices wait, want 1, merged", len(notices))
		}

		<-notices
		cancel()
		l.Epoch++
		s.Swap(t.Context(), l)
		if len(notices) != 0 {
			t.Error("a notice came after its context had ended")
		}
	})
}
