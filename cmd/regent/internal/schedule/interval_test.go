package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func TestInterval(t *testing.T) {
	const every = 90 * time.Second
	s := Every("web", every)
	first := s.Next(time.Unix(1_700_000_000, 0))

	t.Run("each_time_is_one_interval_after_the_last", func(t *testing.T) {
		for at := first; at.Before(first.Add(time.Hour)); {
			next := s.Next(at)
			if next.Sub(at) != every {
				t.Fatalf("%v after %v", next, at)
			}
			at = next
		}
	})

	t.Run("the_next_time_is_strictly_after_and_the_first_such", func(t *testing.T) {
		for _, c := range []struct{ before, want time.Duration }{
			{0, every},
			{time.Nanosecond, 0},
			{time.Millisecond, 0},
			{every - 1, 0},
			{every, 0},
			{-time.Nanosecond, every},
			{-time.Millisecond, every},
		} {
			if got := s.Next(first.Add(-c.before)); !got.Equal(first.Add(c.want)) {
				t.Errorf("%v before: got %v, want %v", c.before, got.Sub(first), c.want)
			}
		}
	})

	t.Run("any_start_leads_to_the_same_times_even_before_1970", func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for range 10_000 {
			at := time.Unix(r.Int64N(8e9)-4e9, r.Int64N(1e9))
			got := s.Next(at)
			if !got.After(at) || got.Sub(at) > every || got.Sub(first)%every != 0 {
				t.Fatalf("%v after %v", got, at)
			}
		}
	})

	t.Run("nothing_is_due_after_the_last_year_that_can_be_written", func(t *testing.T) {
		end := time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
		for _, at := range []time.Time{end, end.AddDate(1, 0, 0), end.AddDate(1e6, 0, 0)} {
			if got := s.Next(at); !got.IsZero() {
				t.Errorf("%v after %v", got, at)
			}
		}
	})

	t.Run("ten_thousand_polls_are_spread_evenly", func(t *testing.T) {
		for _, names := range []string{"poll-%d", "%d", "host%05d.example.com", "%d-web"} {
			const polls, parts = 10_000, 60
			var counts [parts]int
			for i := range polls {
				s := Every(fmt.Sprintf(names, i), time.Minute)
				counts[s.Next(time.Unix(0, 0)).UnixMilli()%60_000*parts/60_000]++
			}
			chi := 0.0
			for _, n := range counts {
				d := float64(n) - polls/parts
				chi += d * d / (polls / parts)
			}
			if chi > 110 { // of 59 degrees of freedom: less than one in 10,000 even spreads is so uneven
				t.Errorf("%s: chi squared %.0f: %v", names, chi, counts)
			}
		}
	})

	t.Run("the_times_of_a_name_never_change", func(t *testing.T) { // or an upgrade would skip and double slots
		const golden = 1_700_000_031_667
		if first.UnixMilli() != golden {
			t.Errorf("got %d, want %d", first.UnixMilli(), golden)
		}
	})
}
