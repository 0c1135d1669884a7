package schedule

import (
	"testing"
	"time"
)

// mustParse returns the schedule of a cron expression in a zone, which is UTC if its name is empty.
func mustParse(t testing.TB, expression, zone string) Schedule {
	t.Helper()
	location, err := LoadZone(zone)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseCron(expression, location)
	if err != nil {
		t.Fatal(err)
	}

	return s
}

func TestPeriod(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		s    Schedule
		want time.Duration
	}{
		{"an_interval_has_its_length", Every("p", 90*time.Second), 90 * time.Second},
		{"a_cron_has_the_gap_between_its_next_two_due_times", mustParse(t, "0 3,7 * * *", ""), 4 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Period(c.s, now); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}

	t.Run("no_two_due_times_have_none", func(t *testing.T) {
		for _, end := range []time.Time{
			time.Date(9999, 12, 31, 23, 59, 0, 0, time.UTC),
			time.Date(9999, 12, 31, 23, 58, 30, 0, time.UTC),
		} {
			if got := Period(mustParse(t, "* * * * *", ""), end); got != 0 {
				t.Errorf("after %v: %v", end, got)
			}
		}
	})
}

func TestCount(t *testing.T) {
	first := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	minutes := mustParse(t, "* * * * *", "")
	even := Every("p", time.Minute)
	for name, s := range map[string]Schedule{"cron": minutes, "interval": even} {
		t.Run("the_first_due_time_counts_and_the_end_does_not/"+name, func(t *testing.T) {
			due := s.Next(first)
			for _, c := range []struct {
				before time.Duration
				want   uint64
			}{
				{0, 0}, {1, 1}, {time.Minute, 1}, {time.Minute + 1, 2}, {time.Hour, 60}, {-time.Hour, 0},
			} {
				if got := Count(s, due, due.Add(c.before)); got != c.want {
					t.Errorf("%v after the first: %d, want %d", c.before, got, c.want)
				}
			}
		})
	}

	t.Run("a_cron_is_counted_to_a_limit_and_an_interval_is_not", func(t *testing.T) {
		year := first.AddDate(1, 0, 0)
		if got := Count(minutes, first, year); got != MaxCount {
			t.Errorf("cron: %d", got)
		}
		if due := even.Next(first); Count(even, due, due.AddDate(1, 0, 0)) != 365*24*60 {
			t.Error("an interval is not counted to its end")
		}
	})
}

func TestLatest(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
	for _, c := range []struct {
		name       string
		expression string
		want       time.Duration
	}{
		{"a_minute_ago", "* * * * *", 30 * time.Second},
		{"hours_ago", "0 3 * * *", 9*time.Hour + 30*time.Second},
		{"months_ago", "0 0 1 1 *", now.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))},
	} {
		t.Run("the_last_due_time_is_found_"+c.name, func(t *testing.T) {
			if got := now.Sub(Latest(mustParse(t, c.expression, ""), now)); got != c.want {
				t.Errorf("%v ago, want %v", got, c.want)
			}
		})
	}
}

func BenchmarkNext(b *testing.B) {
	for name, s := range map[string]Schedule{
		"interval": Every("web", time.Minute),
		"cron":     mustParse(b, "*/5 * * * *", ""),
		"zone":     mustParse(b, "30 2 * * *", "Europe/Berlin"),
		"leap":     mustParse(b, "0 0 29 2 *", "Europe/Berlin"),
	} {
		b.Run(name, func(b *testing.B) {
			at := time.Unix(1_700_000_000, 0)
			b.ReportAllocs()
			for b.Loop() {
				s.Next(at)
			}
		})
	}
}
