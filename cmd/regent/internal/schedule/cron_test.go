package schedule

import (
	"os"
	"strings"
	"testing"
	"time"
)

// cronCase is a line of testdata/cron.txt, a table that the bench reads too.
type cronCase struct {
	name, cron, zone string
	after, want      time.Time
}

func cronTable(t *testing.T) []cronCase {
	t.Helper()
	text, err := os.ReadFile("testdata/cron.txt")
	if err != nil {
		t.Fatal(err)
	}

	var cases []cronCase
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, " | ")
		if len(fields) != 5 {
			t.Fatalf("%s: %d fields", line, len(fields))
		}

		c := cronCase{name: fields[0], cron: fields[1], zone: strings.TrimPrefix(fields[2], "-")}
		if c.after, err = time.Parse(time.RFC3339, fields[3]); err != nil {
			t.Fatal(err)
		}
		if c.want, err = time.Parse(time.RFC3339, fields[4]); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	if len(cases) < 41 {
		t.Fatalf("only %d cases", len(cases))
	}
	return cases
}

func TestCron(t *testing.T) {
	for _, c := range cronTable(t) {
		t.Run(c.name, func(t *testing.T) {
			s := mustParse(t, c.cron, c.zone)
			if got := s.Next(c.after); !got.Equal(c.want) {
				t.Errorf("got %v, want %v", got, c.want.UTC())
			}
		})
	}
	t.Run("nothing_is_due_after_the_last_year_that_can_be_written", func(t *testing.T) {
		for _, expression := range []string{"* * * * *", "0 0 1 1 *", "0 * 29 2 *"} {
			s := mustParse(t, expression, "Europe/Berlin")
			for _, at := range []time.Time{
				time.Date(9999, 12, 31, 23, 59, 0, 0, time.UTC),
				time.Date(1e6, 1, 1, 0, 0, 0, 0, time.UTC),
			} {
				if got := s.Next(at); !got.IsZero() && got.Year() > 9999 {
					t.Errorf("%s: %v", expression, got)
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
			_, err := ParseCron(c.cron, time.UTC)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// FuzzCron shows that no expression makes the parser or the schedule panic or go back in time, and that each due time
// is on a minute that matches, or at the end of a gap.
func FuzzCron(f *testing.F) {
	f.Add("*/5 * * * *", int64(1_700_000_000), "Europe/Berlin")
	f.Add("30 2 29 feb sun-mon/2", int64(-1), "Australia/Lord_Howe")
	f.Add("0 0 31 12 7", int64(1<<40), "Pacific/Apia")
	f.Add("@weekly", int64(1_775_000_000), "America/New_York")
	f.Fuzz(func(t *testing.T, expression string, at int64, zone string) {
		location, err := LoadZone(zone)
		if err != nil {
			return
		}
		s, err := ParseCron(expression, location)
		if err != nil {
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
			clock, ok := c.next(reading(local))
			matches := ok && clock == reading(local)
			if !next.After(after) || !matches && !local.Equal(start) {
				t.Fatalf("%q in %s: %v after %v", expression, zone, local, after)
			}
			after = next
		}
	})
}
