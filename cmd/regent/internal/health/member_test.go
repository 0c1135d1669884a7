package health

import (
	"strings"
	"testing"
	"time"
)

func TestApply(t *testing.T) {
	statuses := map[string]Status{
		"?": Unknown,
		"h": Healthy,
		"d": Degraded,
		"p": Partitioned,
		"u": Unreachable,
		"g": Gone,
	}
	letters := map[Status]string{}
	for letter, s := range statuses {
		letters[s] = letter
	}

	for name, c := range map[string]struct{ findings, want string }{
		"the_first_healthy_finding_counts":                 {"h", "h"},
		"the_first_other_finding_does_not":                 {"d", "?"},
		"two_other_findings_give_the_first_status":         {"dd", "?d"},
		"one_worse_finding_is_no_change":                   {"hdhphd", "hhhhhh"},
		"two_worse_findings_in_a_row_are":                  {"hdd", "hhd"},
		"the_milder_of_two_worse_findings_counts":          {"hdppp", "hhdpp"},
		"the_milder_of_two_counts_in_any_order":            {"hpddd", "hhddd"},
		"one_better_finding_is_no_recovery":                {"hddhdh", "hhdddd"},
		"two_better_findings_in_a_row_are":                 {"hddhh", "hhddh"},
		"the_worse_of_two_better_findings_counts":          {"ppphdd", "?pppdd"},
		"an_expired_heartbeat_counts_at_once":              {"hu", "hu"},
		"a_vacant_register_counts_at_once":                 {"hg", "hg"},
		"an_unreachable_member_comes_back_by_two_findings": {"huhh", "huuh"},
		"an_unknown_finding_changes_nothing":               {"hd?d", "hhhd"},
		"contradicting_findings_change_nothing":            {"ddhphphp", "?ddddddd"},
		"silence_turns_to_gone":                            {"huug", "huug"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &member{status: Unknown}
			var got strings.Builder
			for i, l := range strings.Split(c.findings, "") {
				now := time.Unix(int64(i), 0)
				before := m.status
				pending := m.apply(finding{statuses[l], l}, now)
				if want := statuses[l] != Unknown && m.status != statuses[l]; pending != want {
					t.Errorf("finding %d: pending is %t", i, pending)
				}
				if m.status != Unknown && m.why != letters[m.status] {
					t.Errorf("finding %d: %s, because of %q", i, m.status, m.why)
				}
				if (m.status != before) != (m.since == now && i > 0) && i > 0 {
					t.Errorf("finding %d: since %v", i, m.since)
				}
				got.WriteString(letters[m.status])
			}
			if got.String() != c.want {
				t.Errorf("%s gave %s, want %s", c.findings, got.String(), c.want)
			}
		})
	}

	t.Run("a_new_incarnation_is_up_with_its_first_healthy_finding", func(t *testing.T) {
		m := &member{status: Unknown}
		m.apply(finding{Gone, "it left"}, time.Now())
		m.reset(time.Now())
		if m.apply(finding{Healthy, ""}, time.Now()); m.status != Healthy || m.why != "" || m.previous != Gone {
			t.Errorf("got %+v", m)
		}
	})
}
