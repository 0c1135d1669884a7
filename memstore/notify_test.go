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
func count(ctx context.Context, hints <-chan driver.Record) (n int) {
	for {
		select {
		case <-hints:
			n++
		case <-ctx.Done():
			return n
		}
	}
}

func TestHints(t *testing.T) {
	const changes = 10
	// change hands over a register, or only renews it, once a minute, with a subscriber that has the given faults.
	woken := func(t *testing.T, f memstore.Faults, hands bool) (n int) {
		virtual.Test(t, func(t *testing.T) {
			s := memstore.New()
			ctx := within(t, changes*time.Minute+time.Minute)
			hints := s.Client("c", f).Wake(ctx, "sea")
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

			n = count(ctx, hints)
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
		{"hints_may_be_lost", memstore.Faults{LoseHint: 1}, true, 0},
		{"hints_may_come_twice", memstore.Faults{DoubleHint: 1}, true, 2 * changes},
		{"hints_may_be_late", memstore.Faults{HintDelay: always(90 * time.Second)}, true, changes - 1},
		{"renewals_may_wake_for_nothing", memstore.Faults{SpuriousHint: 1}, false, changes},
		{"a_partition_cuts_hints", memstore.Faults{CutAnswers: true}, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := woken(t, tt.f, tt.hands); got != tt.want {
				t.Errorf("woken %d times, want %d", got, tt.want)
			}
		})
	}
}

func TestAHintIsThereBeforeItsSwapIsAnswered(t *testing.T) {
	bubble(t, "and_none_after_the_context", func(t *testing.T, s *memstore.Store, l driver.Record) {
		ctx, cancel := context.WithCancel(t.Context())
		hints := s.Wake(ctx, "")
		for range 3 {
			l.Epoch++
			l, _ = s.Swap(t.Context(), l)
		}

		if len(hints) != 1 {
			t.Errorf("%d hints wait, want 1, merged", len(hints))
		}

		<-hints
		cancel()
		l.Epoch++
		s.Swap(t.Context(), l)
		if len(hints) != 0 {
			t.Error("a hint came after its context had ended")
		}
	})
}
