package health

import (
	"strings"
	"testing"
	"time"
)

func TestSettle(t *testing.T) {
	word := map[string]Status{"?": Unknown, "h": Healthy, "d": Degraded, "p": Partitioned, "u": Unreachable, "g": Gone}
	letter := map[Status]string{}
	for l, s := range word {
		letter[s] = l
	}
	for name, c := range map[string]struct{ verdicts, want string }{
		"the_first_good_word_counts":                          {"h", "h"},
		"a_first_bad_word_does_not":                           {"d", "?"},
		"a_first_status_needs_two_bad_words":                  {"dd", "?d"},
		"one_bad_check_is_no_change":                          {"hdhphd", "hhhhhh"},
		"two_bad_checks_in_a_row_are":                         {"hdd", "hhd"},
		"the_milder_of_two_counts":                            {"hdppp", "hhdpp"},
		"and_so_in_any_order":                                 {"hpddd", "hhddd"},
		"one_good_check_is_no_recovery":                       {"hddhdh", "hhdddd"},
		"two_good_checks_in_a_row_are":                        {"hddhh", "hhddh"},
		"the_worse_of_two_better_ones_counts":                 {"ppphdd", "?pppdd"},
		"a_proved_death_counts_at_once":                       {"hu", "hu"},
		"so_does_leaving":                                     {"hg", "hg"},
		"a_member_that_ran_out_comes_back_by_two_good_checks": {"huhh", "huuh"},
		"a_verdict_that_says_nothing_changes_nothing":         {"hd?d", "hhhd"},
		"contradicting_verdicts_change_nothing":               {"ddhphphp", "?ddddddd"},
		"silence_turns_to_gone":                               {"huug", "huug"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &member{status: Unknown}
			var got strings.Builder
			for i, l := range strings.Split(c.verdicts, "") {
				now := time.Unix(int64(i), 0)
				before := m.status
				pending := m.settle(verdict{word[l], l}, now)
				if wait := word[l] != Unknown && m.status != word[l]; pending != wait {
					t.Errorf("verdict %d: pending is %t", i, pending)
				}
				if m.status != Unknown && m.why != letter[m.status] {
					t.Errorf("verdict %d: %s, because of %q", i, m.status, m.why)
				}
				if (m.status != before) != (m.since == now && i > 0) && i > 0 {
					t.Errorf("verdict %d: since %v", i, m.since)
				}
				got.WriteString(letter[m.status])
			}
			if got.String() != c.want {
				t.Errorf("%s gave %s, want %s", c.verdicts, got.String(), c.want)
			}
		})
	}

	t.Run("a_new_incarnation_is_up_with_its_first_good_word", func(t *testing.T) {
		m := &member{status: Unknown}
		m.settle(verdict{Gone, "it left"}, time.Now())
		m.begin(time.Now())
		if m.settle(verdict{Healthy, ""}, time.Now()); m.status != Healthy || m.why != "" || m.from != Gone {
			t.Errorf("got %+v", m)
		}
	})
}
