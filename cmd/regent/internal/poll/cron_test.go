package poll

import (
	"strings"
	"testing"
	"time"
)

func TestCron(t *testing.T) {
	for _, c := range []struct{ name, cron, zone, after, want string }{
		{"every_minute", "* * * * *", "", "2026-05-01T10:00:00Z", "2026-05-01T10:01:00Z"},
		{"seconds_do_not_matter", "* * * * *", "", "2026-05-01T10:00:59.9Z", "2026-05-01T10:01:00Z"},
		{"a_due_time_itself_is_over", "0 12 * * *", "", "2026-05-01T12:00:00Z", "2026-05-02T12:00:00Z"},
		{"a_moment_before_it_is_not", "0 12 * * *", "", "2026-05-01T11:59:59.999999999Z", "2026-05-01T12:00:00Z"},
		{"steps_from_the_first", "*/20 * * * *", "", "2026-05-01T10:41:00Z", "2026-05-01T11:00:00Z"},
		{"steps_in_a_range", "10-40/15 * * * *", "", "2026-05-01T10:26:00Z", "2026-05-01T10:40:00Z"},
		{"steps_from_a_value", "50/5 * * * *", "", "2026-05-01T10:50:00Z", "2026-05-01T10:55:00Z"},
		{"a_list", "5,50 1,13 * * *", "", "2026-05-01T01:50:00Z", "2026-05-01T13:05:00Z"},
		{"names", "0 0 * FEB Mon-wed", "", "2026-05-01T00:00:00Z", "2027-02-01T00:00:00Z"},
		{"weekday_7_is_Sunday", "0 0 * * 7", "", "2026-05-01T00:00:00Z", "2026-05-03T00:00:00Z"},
		{"a_range_up_to_Sunday_by_number", "0 0 * * 6-7", "", "2026-05-02T00:00:00Z", "2026-05-03T00:00:00Z"},
		{"a_range_up_to_Sunday_by_name", "0 0 * * fri-sun", "", "2026-05-02T00:00:00Z", "2026-05-03T00:00:00Z"},
		{"steps_over_weekdays_begin_on_Sunday", "0 0 * * */6", "", "2026-05-01T00:00:00Z", "2026-05-02T00:00:00Z"},
		{"day_or_weekday_if_both_are_restricted_by_day", "0 0 13 * fri", "", "2026-05-09T00:00:00Z", "2026-05-13T00:00:00Z"},
		{"day_or_weekday_if_both_are_restricted_by_weekday", "0 0 13 * fri", "", "2026-05-13T00:00:00Z", "2026-05-15T00:00:00Z"},
		{"day_and_weekday_if_one_begins_with_a_star", "0 0 */2 * fri", "", "2026-05-02T00:00:00Z", "2026-05-15T00:00:00Z"},
		{"the_31st_skips_short_months", "0 0 31 * *", "", "2026-05-31T00:00:00Z", "2026-07-31T00:00:00Z"},
		{"a_leap_day", "0 0 29 2 *", "", "2026-05-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"a_leap_day_over_a_year_that_is_none", "0 0 29 2 *", "", "2096-05-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"a_leap_day_on_a_Sunday_across_2100", "0 * 29 2 */7", "Europe/Berlin", "2088-05-01T00:00:00Z", "2128-02-29T00:00:00+01:00"},
		{"hourly", "@hourly", "", "2026-05-01T10:00:00Z", "2026-05-01T11:00:00Z"},
		{"daily", "@daily", "", "2026-05-01T10:00:00Z", "2026-05-02T00:00:00Z"},
		{"weekly", "@weekly", "", "2026-05-01T10:00:00Z", "2026-05-03T00:00:00Z"},
		{"monthly", "@monthly", "", "2026-05-01T10:00:00Z", "2026-06-01T00:00:00Z"},
		{"yearly", "@yearly", "", "2026-05-01T10:00:00Z", "2027-01-01T00:00:00Z"},
		{"a_zone", "0 9 * * *", "Asia/Kathmandu", "2026-05-01T00:00:00Z", "2026-05-01T03:15:00Z"},

		{"a_fixed_time_that_does_not_exist_is_due_after_the_gap", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00"},
		{"and_the_next_day_as_usual", "30 2 * * *", "Europe/Berlin", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"},
		{"all_that_fall_into_a_gap_are_due_once", "*/15 2 * * *", "America/New_York", "2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00"},
		{"together_with_one_that_is_due_then_anyway", "0,30 2-3 * * *", "America/New_York", "2026-03-08T03:00:00-04:00", "2026-03-08T03:30:00-04:00"},
		{"a_fixed_time_that_exists_twice_is_due_the_first_time", "30 1 * * *", "America/New_York", "2026-11-01T00:00:00-04:00", "2026-11-01T01:30:00-04:00"},
		{"and_not_the_second", "30 1 * * *", "America/New_York", "2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"},
		{"not_even_if_asked_between_the_two", "30 1 * * *", "America/New_York", "2026-11-01T01:15:00-05:00", "2026-11-02T01:30:00-05:00"},
		{"an_hourly_one_is_due_in_both_hours", "30 * * * *", "America/New_York", "2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00"},
		{"an_hourly_one_misses_no_hour_that_passes", "30 * * * *", "Europe/Berlin", "2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"},
		{"a_clock_that_is_put_forward_by_half_an_hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-04T02:30:00+11:00"},
		{"a_clock_that_is_put_back_by_half_an_hour", "45 1 * * *", "Australia/Lord_Howe", "2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"},
		{"the_last_day_of_a_leap_year", "0 * 31 12 *", "Europe/Berlin", "2028-12-31T23:30:00Z", "2029-12-31T00:00:00+01:00"},
		{"the_last_night_of_a_leap_year", "30 0 1 1 *", "America/New_York", "2028-12-31T12:00:00Z", "2029-01-01T00:30:00-05:00"},
		{"a_gap_at_midnight", "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", "2018-11-04T01:00:00-02:00"},
		{"a_day_that_never_was", "0 12 30 12 *", "Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			after, err := time.Parse(time.RFC3339, c.after)
			if err != nil {
				t.Fatal(err)
			}
			want, err := time.Parse(time.RFC3339, c.want)
			if err != nil {
				t.Fatal(err)
			}
			s := due(t, Poll{Name: "p", Cron: c.cron, TimeZone: c.zone})
			if got := s.Next(after); !got.Equal(want) {
				t.Errorf("got %v, want %v", got, want.UTC())
			}
		})
	}
	t.Run("nothing_is_due_after_the_last_year_that_can_be_written", func(t *testing.T) {
		for _, e := range []string{"* * * * *", "0 0 1 1 *", "0 * 29 2 *"} {
			for _, at := range []time.Time{time.Date(9999, 12, 31, 23, 59, 0, 0, time.UTC), time.Date(1e6, 1, 1, 0, 0, 0, 0, time.UTC)} {
				if got := due(t, Poll{Name: "p", Cron: e, TimeZone: "Europe/Berlin"}).Next(at); !got.IsZero() && got.Year() > 9999 {
					t.Errorf("%s: %v", e, got)
				}
			}
		}
	})
}

func TestBadCron(t *testing.T) {
	for _, c := range []struct{ name, cron, want string }{
		{"too_few_fields", "* * * *", "five fields"},
		{"too_many_fields", "0 * * * * *", "five fields"},
		{"nothing", " ", "five fields"},
		{"an_unknown_short_form", "@reboot", "five fields"},
		{"every", "@every 5m", "use interval"},
		{"a_zone", "TZ=UTC * * * * *", "use timeZone"},
		{"a_minute_too_high", "60 * * * *", `0 to 59 in its field minute, not "60"`},
		{"an_hour_too_high", "0 24 * * *", `0 to 23 in its field hour, not "24"`},
		{"a_day_too_low", "0 0 0 * *", `1 to 31 in its field day, not "0"`},
		{"a_month_by_a_wrong_name", "0 0 * juno *", `1 to 12 or jan to dec in its field month, not "juno"`},
		{"a_weekday_too_high", "0 0 * * 8", `0 to 7 or sun to sat in its field weekday, not "8"`},
		{"a_sign", "+5 * * * *", `not "+5"`},
		{"a_range_upside_down", "0 5-3 * * *", `go up in its field hour, not "5-3"`},
		{"a_range_without_an_end", "0 5- * * *", `not ""`},
		{"a_step_of_nothing", "*/0 * * * *", `step of 1 to 59 after the slash in its field minute, not "0"`},
		{"two_steps", "*/2/2 * * * *", `not "2/2"`},
		{"an_empty_part", "1,,2 * * * *", `not ""`},
		{"a_day_that_there_never_is", "0 0 30 2 *", "never due"},
		{"days_that_there_never_are", "0 0 31 2,4,6,9,11 *", "never due"},
		{"too_much", strings.Repeat("1,", 200) + "1 * * * *", "at most 200 bytes"},
	} {
		t.Run(c.name+"_is_refused", func(t *testing.T) {
			_, err := (Poll{Name: "p", Cron: c.cron}).Schedule()
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "polls.p.cron ") {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// FuzzCron shows that no expression makes the parser or the schedule panic or go back in time, and that each due time is on a minute that
// matches, or at the end of a gap.
func FuzzCron(f *testing.F) {
	f.Add("*/5 * * * *", int64(1_700_000_000), "Europe/Berlin")
	f.Add("30 2 29 feb sun-mon/2", int64(-1), "Australia/Lord_Howe")
	f.Add("0 0 31 12 7", int64(1<<40), "Pacific/Apia")
	f.Add("@weekly", int64(1_775_000_000), "America/New_York")
	f.Fuzz(func(t *testing.T, expression string, at int64, zone string) {
		s, err := (Poll{Name: "p", Cron: expression, TimeZone: zone}).Schedule()
		if err != nil || expression == "" {
			return
		}
		c := s.(*cron)
		after := time.Unix(at, 0)
		for range 3 {
			next := s.Next(after)
			if next.IsZero() {
				return
			}
			local := next.In(c.zone)
			start, _ := local.ZoneBounds()
			if clock, ok := c.next(shown(local)); !next.After(after) || (!ok || clock != shown(local)) && !local.Equal(start) {
				t.Fatalf("%q in %s: %v after %v", expression, zone, local, after)
			}
			after = next
		}
	})
}
