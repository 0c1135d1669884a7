package node_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/node"
)

// filled returns a hub with n events.
func filled(n int) *node.Hub {
	h := node.NewHub()
	for i := range n {
		h.Send(regent.Event{Seq: uint64(i + 1)})
	}
	return h
}

func subscribe(t *testing.T, h *node.Hub, after string) *node.Subscription {
	t.Helper()
	s, err := h.Subscribe(after)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHub(t *testing.T) {
	t.Run("a_subscriber_gets_the_events_that_it_missed_and_new_ones", func(t *testing.T) {
		h := filled(2500)
		s := subscribe(t, h, h.ID(regent.Event{Seq: 2497}))
		if len(s.Past) != 3 || s.Past[0].Seq != 2498 || s.Missed != "" {
			t.Errorf("%d events, missed %q", len(s.Past), s.Missed)
		}
		h.Send(regent.Event{Seq: 2501})
		if e := <-s.Events(); e.Seq != 2501 {
			t.Errorf("got %d", e.Seq)
		}
		if s.Close() || h.CutOff() != 0 {
			t.Error("it counts as cut off")
		}
	})

	t.Run("a_slow_subscriber_is_cut_off_and_counted", func(t *testing.T) {
		h := filled(0)
		s := subscribe(t, h, "")
		for i := range uint64(100) {
			h.Send(regent.Event{Seq: i + 1})
		}
		n := 0
		for range s.Events() {
			n++
		}
		if n >= 100 {
			t.Errorf("got %d events", n)
		}
		if !s.Close() || h.CutOff() != 1 {
			t.Errorf("%d cut off", h.CutOff())
		}
		s.Close() // a second time does no harm
	})

	t.Run("an_ID_of_another_run_skips_no_event_and_reports_the_gap", func(t *testing.T) {
		before := filled(50)
		h := filled(80)
		for _, id := range []string{before.ID(regent.Event{Seq: 40}), "40", h.ID(regent.Event{Seq: 81})} {
			s := subscribe(t, h, id)
			if len(s.Past) != 80 || s.Missed == "" {
				t.Errorf("%s: %d events, missed %q", id, len(s.Past), s.Missed)
			}
			s.Close()
		}
	})

	t.Run("events_that_are_not_kept_any_more_are_reported", func(t *testing.T) {
		h := filled(2500)
		s := subscribe(t, h, h.ID(regent.Event{Seq: 7}))
		defer s.Close()
		if want := fmt.Sprintf("events 8 to %d are not kept", s.Past[0].Seq-1); !strings.Contains(s.Missed, want) {
			t.Errorf("got %q, want %q", s.Missed, want)
		}
	})

	t.Run("an_invalid_ID_is_refused", func(t *testing.T) {
		h := filled(3)
		tooLarge := strings.Repeat("A", 13) + "-99999999999999999999"
		for _, id := range []string{"x", "-1", "1-1", h.ID(regent.Event{})[:14], tooLarge, " 1"} {
			if _, err := h.Subscribe(id); err == nil || !strings.Contains(err.Error(), "must be the ID of an event") {
				t.Errorf("%q: %v", id, err)
			}
		}
	})
}
