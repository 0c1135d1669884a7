package schedule

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// oracle finds the due times of an expression by checking every minute, and every minute of the calendar that the clock
// shows or skips. It shares no code with the schedule.
type oracle struct {
	fields [5]map[int]bool
	stars  [5]bool
	zone   *time.Location
}

func newOracle(expression string, zone *time.Location) *oracle {
	o := &oracle{zone: zone}
	for i, field := range strings.Fields(expression) {
		o.stars[i] = field[0] == '*'
		o.fields[i] = map[int]bool{}
		least, most := []int{0, 0, 1, 1, 0}[i], []int{59, 23, 31, 12, 6}[i]
		for part := range strings.SplitSeq(field, ",") {
			step := 1
			values, after, ok := strings.Cut(part, "/")
			if ok {
				step, _ = strconv.Atoi(after)
			}
			from, to := least, most
			if values != "*" {
				a, b, ranged := strings.Cut(values, "-")
				from, _ = strconv.Atoi(a)
				if to = from; ranged {
					to, _ = strconv.Atoi(b)
				} else if ok {
					to = most
				}
			}
			for v := from; v <= to; v += step {
				o.fields[i][v%map[bool]int{true: 7, false: 100}[i == 4]] = true
			}
		}
	}
	return o
}

// matches checks year, month, day, hour and minute, read as UTC.
func (o *oracle) matches(t time.Time) bool {
	day, weekday := o.fields[2][t.Day()], o.fields[4][int(t.Weekday())]
	ofDay := day && weekday
	if !o.stars[2] && !o.stars[4] {
		ofDay = day || weekday
	}
	return o.fields[0][t.Minute()] && o.fields[1][t.Hour()] && o.fields[3][int(t.Month())] && ofDay
}

func onClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
}

// all returns every due time in (from, to].
func (o *oracle) all(from, to time.Time) []time.Time {
	var times []time.Time
	high := onClock(from.Add(-48 * time.Hour).In(o.zone)) // far enough before for what the clock has shown already
	for t := from.Add(-48 * time.Hour).Add(time.Minute); !t.After(to); t = t.Add(time.Minute) {
		clock := onClock(t.In(o.zone))
		hit := false
		if o.stars[1] {
			hit = o.matches(clock)
		} else {
			for m := high.Add(time.Minute); !m.After(clock); m = m.Add(time.Minute) {
				hit = hit || o.matches(m)
			}
		}
		if clock.After(high) {
			high = clock
		}
		if hit && t.After(from) {
			times = append(times, t)
		}
	}
	return times
}

// moments are around changes of the clock, and around none.
func moments() map[string][]string {
	return map[string][]string{
		"UTC":                 {"2026-02-27T00:00:00Z", "2023-12-30T00:00:00Z"},
		"Europe/Berlin":       {"2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z", "2028-12-30T00:00:00Z"},
		"America/New_York":    {"2026-03-07T12:00:00Z", "2026-10-31T12:00:00Z"},
		"Australia/Lord_Howe": {"2026-04-04T00:00:00Z", "2026-10-03T00:00:00Z"}, // by half an hour
		"America/Sao_Paulo":   {"2018-11-03T00:00:00Z", "2018-02-17T00:00:00Z"}, // at midnight
		"Pacific/Apia":        {"2011-12-29T00:00:00Z"},                         // a day that never was
		"Africa/Casablanca":   {"2026-02-14T00:00:00Z", "2026-03-21T00:00:00Z"}, // back for Ramadan
		"Asia/Kathmandu":      {"2026-02-27T00:00:00Z"},                         // 45 minutes off the hour
		"America/St_Johns":    {"2006-10-28T12:00:00Z", "2006-04-01T12:00:00Z"}, // a minute after midnight
		"Kwajalein":           {"1993-08-20T00:00:00Z", "1969-09-30T00:00:00Z"},
	}
}

// expression returns a random one that is often due.
func expression(r *rand.Rand) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	n := func(most int) string { return strconv.Itoa(r.IntN(most)) }
	return strings.Join([]string{
		pick("*", "*/15", n(60), "0", "30", n(30)+"-"+strconv.Itoa(30+r.IntN(30)), n(60)+","+n(60),
			"10-50/20", n(60)+"/7"),
		pick("*", "*", "*/2", "*/3", n(24), "0", "1", "2", "3", "1-3", "0-23", n(24)+","+n(24), "2,3"),
		pick("*", "*", "*", "*/2", n(28)+"-31", "1", "29,30"),
		pick("*", "*", "*", "*/2", "1-11", "2,3,4,10,11,12"),
		pick("*", "*", "*", "0", "7", "6,7", "5-7", "*/2", "1-5"),
	}, " ")
}

func TestCronAgainstEveryMinute(t *testing.T) {
	const rounds = 15
	r := rand.New(rand.NewPCG(3, 4))
	for name, starts := range moments() {
		t.Run("as_the_clock_of_"+strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			for range rounds {
				e := expression(r)
				e = strings.Replace(e, " 0-31 ", " 1-31 ", 1)
				s, err := ParseCron(e, zone)
				if err != nil {
					continue // day 0
				}
				for _, start := range starts {
					from, err := time.Parse(time.RFC3339, start)
					if err != nil {
						t.Fatal(err)
					}
					same(t, e, s, newOracle(e, zone).all(from, from.Add(60*time.Hour)), from)
				}
			}
		})
	}
}

// same walks from time to time, and also asks from a moment before and between.
func same(t *testing.T, expression string, s Schedule, want []time.Time, from time.Time) {
	t.Helper()
	at := from
	for _, w := range want {
		for _, ask := range []time.Time{at, at.Add(w.Sub(at) / 2), w.Add(-time.Nanosecond)} {
			if got := s.Next(ask); !got.Equal(w) {
				t.Fatalf("%s: after %v got %v, want %v", expression, ask, got, w)
			}
		}
		at = w
	}
	if got := s.Next(at); got.Before(from.Add(60 * time.Hour)) {
		t.Fatalf("%s: after %v got %v, which is never due", expression, at, got)
	}
}
