package slots_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/cmd/regent/internal/schedule"
	"github.com/regentd/regent/cmd/regent/internal/slots"
)

func line(id, outcome string, ok bool, began int64) string {
	return fmt.Sprintf(`{"id":%q,"kind":"http","epoch":1,"outcome":%q,"data":{"ok":%v},"beganMs":%d}`+"\n", id, outcome, ok, began)
}

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
	at := func(n int64) int64 { return 1_000_000 + n*1000 }
	row := func(from, to int64) string {
		var b strings.Builder
		for n := from; n < to; n++ {
			b.WriteString(line(fmt.Sprintf("p/%d", at(n)), "done", true, at(n)+5))
		}
		return b.String()
	}
	for _, c := range []struct {
		name     string
		journals []string
		holes    []string
		doubles  []string
		slots    int
	}{
		{"a_row_over_two_workers_is_whole", []string{row(0, 5), row(5, 20)}, nil, nil, 20},
		{"a_slot_that_is_missing_is_a_hole", []string{row(0, 5), row(6, 20)}, []string{"p/1005000"}, nil, 19},
		{"a_slot_in_two_journals_is_a_double", []string{row(0, 6), row(5, 20)}, nil, []string{"p/1005000 in w0 and w1"}, 20},
		{"a_second_attempt_after_success_is_a_double", []string{row(0, 20), line("p/1005000#1", "done", true, at(6))}, nil, []string{"p/1005000 in w0 and w1"}, 20},
		{"a_retry_of_a_failed_check_is_none", []string{row(0, 5) + line("p/1005000", "done", false, at(5)), line("p/1005000#1", "done", true, at(5)) + row(6, 20)}, nil, nil, 20},
		{"an_interrupted_run_counts_for_nothing", []string{row(0, 5) + line("p/1005000", "interrupted", false, 0), row(6, 20)}, []string{"p/1005000"}, nil, 19},
		{"a_begun_run_a_torn_line_and_what_is_no_poll_count_for_nothing", []string{row(0, 20) + `{"begin":"p/1020000"}` + "\n" + line("p/now-1", "done", true, 1) + `{"id":"p/10`}, nil, nil, 20},
		{"a_poll_that_stops_early_has_holes", []string{row(0, 5) + line("q/1030000", "done", true, at(30))},
			[]string{"p/1005000", "p/1006000", "p/1007000", "p/1008000", "p/1009000", "p/1010000", "p/1011000", "p/1012000", "p/1013000", "p/1014000", "p/1015000",
				"p/1016000", "p/1017000", "p/1018000", "p/1019000", "p/1020000"}, nil, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := check(t, &slots.Checker{}, c.journals...)
			if !slices.Equal(r.Holes, c.holes) || !slices.Equal(r.Doubles, c.doubles) || r.Slots != c.slots {
				t.Errorf("got %+v", r)
			}
			if r.OK() != (len(c.holes)+len(c.doubles) == 0) {
				t.Error("OK says something else")
			}
		})
	}

	t.Run("a_schedule_finds_holes_that_even_intervals_would_not", func(t *testing.T) {
		s, err := poll.Poll{Name: "c", Cron: "*/15 * * * *"}.Schedule()
		if err != nil {
			t.Fatal(err)
		}
		due := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
		journal := line(fmt.Sprintf("c/%d", due), "done", true, due) + line(fmt.Sprintf("c/%d", due+30*60_000), "done", true, due+30*60_000)
		r := check(t, &slots.Checker{Schedules: map[string]schedule.Schedule{"c": s}}, journal)
		if want := []string{fmt.Sprintf("c/%d", due+15*60_000)}; !slices.Equal(r.Holes, want) {
			t.Errorf("got %v, want %v", r.Holes, want)
		}
	})

	t.Run("delays_are_told", func(t *testing.T) {
		r := check(t, &slots.Checker{}, row(0, 99)+line(fmt.Sprintf("p/%d", at(99)), "done", true, at(99)+700))
		if r.DelayP50 != 5*time.Millisecond || r.DelayMax != 700*time.Millisecond || r.Latest != fmt.Sprintf("p/%d", at(99)) {
			t.Errorf("got %+v", r)
		}
	})

	steady := func(t *testing.T) schedule.Schedule {
		s, err := poll.Poll{Name: "never", Interval: poll.Duration(time.Second)}.Schedule()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	t.Run("a_poll_that_never_ran_is_named_and_all_its_slots_are_left_out", func(t *testing.T) {
		r := check(t, &slots.Checker{Schedules: map[string]schedule.Schedule{"never": steady(t)}}, row(0, 30))
		if !slices.Equal(r.Never, []string{"never"}) || len(r.Holes) != 19 || r.OK() {
			t.Errorf("got %+v", r)
		}
		r = check(t, &slots.Checker{Schedules: map[string]schedule.Schedule{"never": steady(t)}})
		if !slices.Equal(r.Never, []string{"never"}) || r.OK() {
			t.Errorf("without any slot: %+v", r)
		}
	})

	t.Run("the_clock_of_one_worker_does_not_move_the_end", func(t *testing.T) {
		ahead := line(fmt.Sprintf("p/%d", at(20)), "done", true, at(20)+300_000)
		r := check(t, &slots.Checker{}, row(0, 20), ahead)
		if !r.OK() || r.To.UnixMilli() != at(20) {
			t.Errorf("got %+v", r)
		}
	})

	t.Run("the_clock_of_a_former_leader_does_not_move_the_end", func(t *testing.T) {
		second := func(s string) string { return strings.ReplaceAll(s, `"epoch":1`, `"epoch":2`) }
		ahead := line(fmt.Sprintf("p/%d", at(300)), "done", true, at(10))
		r := check(t, &slots.Checker{}, row(0, 10)+ahead, second(row(10, 30)))
		if !r.OK() || r.To.UnixMilli() != at(29) {
			t.Errorf("got %+v", r)
		}
	})

	t.Run("a_slot_that_was_run_again_because_a_clock_went_back_is_no_double", func(t *testing.T) {
		again := line(fmt.Sprintf("p/%d~%d", at(5), at(9)), "done", true, at(25))
		r := check(t, &slots.Checker{}, row(0, 20), again)
		if !r.OK() || r.Again != 1 {
			t.Errorf("got %+v", r)
		}
		if r := check(t, &slots.Checker{}, row(0, 20), again, again); len(r.Doubles) != 1 {
			t.Errorf("twice: %+v", r)
		}
	})

	t.Run("no_journal_at_all_is_not_well", func(t *testing.T) {
		if check(t, &slots.Checker{}).OK() {
			t.Error("it is")
		}
	})
}
