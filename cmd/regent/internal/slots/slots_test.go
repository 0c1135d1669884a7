package slots_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/schedule"
	"github.com/regentd/regent/cmd/regent/internal/slots"
)

// line returns a line of a journal.
func line(id, outcome string, ok bool, began int64) string {
	const form = `{"id":%q,"kind":"http","epoch":1,"outcome":%q,"data":{"ok":%v},"beganMs":%d}` + "\n"
	return fmt.Sprintf(form, id, outcome, ok, began)
}

// at returns the due time of the n-th slot of the poll p, in Unix milliseconds.
func at(n int64) int64 { return 1_000_000 + n*1000 }

// done returns the line of a slot of p that was completed in time.
func done(n int64) string { return line(fmt.Sprintf("p/%d", at(n)), "done", true, at(n)+5) }

// row returns the lines of the slots of p from one to before another one.
func row(from, to int64) string {
	var b strings.Builder
	for n := from; n < to; n++ {
		b.WriteString(done(n))
	}

	return b.String()
}

// check returns the report of the journals of workers w0, w1 and so on.
func check(t *testing.T, c *slots.Checker, journals ...string) *slots.Report {
	t.Helper()
	for i, j := range journals {
		if err := c.Read(fmt.Sprintf("w%d", i), strings.NewReader(j)); err != nil {
			t.Fatal(err)
		}
	}

	return c.Check()
}

func TestCheck(t *testing.T) {
	var stopped []string // slots 5 to 20 of p
	for n := range int64(16) {
		stopped = append(stopped, fmt.Sprintf("p/%d", at(5+n)))
	}

	for _, c := range []struct {
		name     string
		journals []string
		holes    []string
		doubles  []string
		slots    int
	}{
		{
			name:     "a_row_in_two_journals_is_complete",
			journals: []string{row(0, 5), row(5, 20)},
			slots:    20,
		},
		{
			name:     "a_slot_in_no_journal_is_a_hole",
			journals: []string{row(0, 5), row(6, 20)},
			holes:    []string{"p/1005000"},
			slots:    19,
		},
		{
			name:     "a_slot_in_two_journals_is_a_double",
			journals: []string{row(0, 6), row(5, 20)},
			doubles:  []string{"p/1005000 in w0 and w1"},
			slots:    20,
		},
		{
			name:     "a_second_attempt_after_success_is_a_double",
			journals: []string{row(0, 20), line("p/1005000#1", "done", true, at(6))},
			doubles:  []string{"p/1005000 in w0 and w1"},
			slots:    20,
		},
		{
			name: "a_retry_of_a_failed_check_is_no_double",
			journals: []string{
				row(0, 5) + line("p/1005000", "done", false, at(5)),
				line("p/1005000#1", "done", true, at(5)) + row(6, 20),
			},
			slots: 20,
		},
		{
			name:     "an_interrupted_run_is_ignored",
			journals: []string{row(0, 5) + line("p/1005000", "interrupted", false, 0), row(6, 20)},
			holes:    []string{"p/1005000"},
			slots:    19,
		},
		{
			name: "a_begun_run_an_incomplete_line_and_a_manual_run_are_ignored",
			journals: []string{
				row(0, 20) + `{"begin":"p/1020000"}` + "\n" + line("p/now-1", "done", true, 1) + `{"id":"p/10`,
			},
			slots: 20,
		},
		{
			name:     "a_poll_that_stops_early_has_holes",
			journals: []string{row(0, 5) + line("q/1030000", "done", true, at(30))},
			holes:    stopped,
			slots:    6,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := check(t, &slots.Checker{}, c.journals...)
			if !slices.Equal(r.Holes, c.holes) || !slices.Equal(r.Doubles, c.doubles) || r.Slots != c.slots {
				t.Errorf("got %+v", r)
			}
			if r.OK() != (len(c.holes)+len(c.doubles) == 0) {
				t.Errorf("OK is %v", r.OK())
			}
		})
	}

	t.Run("without_a_journal_is_not_OK", func(t *testing.T) {
		if check(t, &slots.Checker{}).OK() {
			t.Error("it is")
		}
	})

	t.Run("delays_are_in_the_report", func(t *testing.T) {
		late := fmt.Sprintf("p/%d", at(99))
		r := check(t, &slots.Checker{}, row(0, 99)+line(late, "done", true, at(99)+700))
		if r.DelayP50Ms != 5 || r.DelayMaxMs != 700 || r.Latest != late {
			t.Errorf("got %+v", r)
		}
	})
}

func TestSchedules(t *testing.T) {
	t.Run("a_schedule_finds_holes_that_even_intervals_would_not", func(t *testing.T) {
		s, err := schedule.ParseCron("*/15 * * * *", time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
		third := first + 30*60_000
		journal := line(fmt.Sprintf("c/%d", first), "done", true, first) +
			line(fmt.Sprintf("c/%d", third), "done", true, third)

		r := check(t, &slots.Checker{Schedules: map[string]schedule.Schedule{"c": s}}, journal)
		if want := []string{fmt.Sprintf("c/%d", first+15*60_000)}; !slices.Equal(r.Holes, want) {
			t.Errorf("got %v, want %v", r.Holes, want)
		}
	})

	t.Run("a_poll_that_never_ran_is_named_and_all_its_slots_are_holes", func(t *testing.T) {
		schedules := map[string]schedule.Schedule{"never": schedule.Every("never", time.Second)}
		r := check(t, &slots.Checker{Schedules: schedules}, row(0, 30))
		if !slices.Equal(r.Never, []string{"never"}) || len(r.Holes) != 19 || r.OK() {
			t.Errorf("got %+v", r)
		}

		r = check(t, &slots.Checker{Schedules: schedules})
		if !slices.Equal(r.Never, []string{"never"}) || r.OK() {
			t.Errorf("without any slot: %+v", r)
		}
	})
}

func TestClocks(t *testing.T) {
	t.Run("the_clock_of_one_worker_does_not_move_the_end", func(t *testing.T) {
		ahead := line(fmt.Sprintf("p/%d", at(20)), "done", true, at(20)+300_000)
		r := check(t, &slots.Checker{}, row(0, 20), ahead)
		if !r.OK() || r.To.UnixMilli() != at(20) {
			t.Errorf("got %+v", r)
		}
	})

	t.Run("the_clock_of_a_former_leader_does_not_move_the_end", func(t *testing.T) {
		second := strings.ReplaceAll(row(10, 30), `"epoch":1`, `"epoch":2`)
		ahead := line(fmt.Sprintf("p/%d", at(300)), "done", true, at(10))
		r := check(t, &slots.Checker{}, row(0, 10)+ahead, second)
		if !r.OK() || r.To.UnixMilli() != at(29) {
			t.Errorf("got %+v", r)
		}
	})

	t.Run("a_slot_that_ran_again_because_a_clock_was_set_back_is_no_double", func(t *testing.T) {
		again := line(fmt.Sprintf("p/%d~%d", at(5), at(9)), "done", true, at(25))
		r := check(t, &slots.Checker{}, row(0, 20), again)
		if !r.OK() || r.Again != 1 {
			t.Errorf("got %+v", r)
		}
		if r := check(t, &slots.Checker{}, row(0, 20), again, again); len(r.Doubles) != 1 {
			t.Errorf("twice: %+v", r)
		}
	})
}
