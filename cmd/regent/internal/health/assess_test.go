package health

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// withStatus returns a candidate with a status, and changes.
func withStatus(id string, s Status, changes ...func(*member)) *member {
	m := &member{status: s, heartbeat: heartbeat{view: candidate(id)}}
	if s != Healthy {
		m.why = "say"
	}
	for _, change := range changes {
		change(m)
	}

	return m
}

func TestAssess(t *testing.T) {
	notEligible := func(m *member) { m.view.Eligible = false }
	elsewhere := func(m *member) { m.view.Elections = []string{"other"} }
	unhealthy := func(m *member) { m.view.Healthy = false }
	died := func(m *member) { m.died = true }
	a := withStatus("a", Healthy)
	b := withStatus("b", Healthy)

	for name, c := range map[string]struct {
		members []*member // the leader is a
		listErr error
		want    Status
		reasons []string
	}{
		"C21_a_single_node_is_healthy": {members: []*member{a}, want: Healthy},
		"all_healthy_is_healthy":       {members: []*member{a, b, withStatus("c", Healthy)}, want: Healthy},
		"a_leader_with_workers_is_healthy": {
			members: []*member{a, withStatus("w", Healthy, notEligible), withStatus("x", Healthy, notEligible)},
			want:    Healthy,
		},
		"no_member_at_all_is_a_reason": {
			want:    Healthy,
			reasons: []string{"no member registers itself, so that only this leader is known"},
		},
		"one_degraded_member_degrades": {
			members: []*member{a, withStatus("b", Degraded), withStatus("c", Healthy)},
			want:    Degraded,
			reasons: []string{"1 of 3 members is not healthy: b (degraded: say)"},
		},
		"all_members_that_are_not_healthy_are_named": {
			members: []*member{
				a, withStatus("b", Partitioned), withStatus("c", Degraded),
				withStatus("d", Healthy), withStatus("e", Healthy),
			},
			want:    Degraded,
			reasons: []string{"2 of 5 members are not healthy: b (partitioned: say), c (degraded: say)"},
		},
		"a_member_that_is_gone_does_not_count": {
			members: []*member{a, b, withStatus("c", Gone), withStatus("d", Gone, died)},
			want:    Healthy,
		},
		"a_degraded_leader_degrades": {
			members: []*member{withStatus("a", Degraded)},
			want:    Degraded,
			reasons: []string{"1 of 1 members is not healthy: a (degraded: say)"},
		},
		"a_degraded_standby_is_a_standby": {
			members: []*member{a, withStatus("b", Degraded)},
			want:    Degraded,
			reasons: []string{"1 of 2 members is not healthy: b (degraded: say)"},
		},
		"a_standby_that_does_not_campaign_could_not_take_over": {
			members: []*member{a, withStatus("b", Degraded, unhealthy)},
			want:    Critical,
			reasons: []string{
				"no other member could take over: b (degraded: say)",
				"1 of 2 members is not healthy: b (degraded: say)",
			},
		},
		"a_member_that_does_not_campaign_here_is_no_standby": {
			members: []*member{
				a, withStatus("b", Unreachable),
				withStatus("w", Healthy, notEligible), withStatus("x", Healthy, elsewhere),
			},
			want: Critical,
			reasons: []string{
				"no other member could take over: b (unreachable: say)",
				"1 of 4 members is not healthy: b (unreachable: say)",
			},
		},
		"a_standby_that_died_is_missed": {
			members: []*member{a, withStatus("b", Gone, died)},
			want:    Critical,
			reasons: []string{"no other member could take over: b (gone: say)"},
		},
		"a_standby_that_left_leaves_no_standby": {
			members: []*member{a, withStatus("b", Gone)},
			want:    Degraded,
			reasons: []string{"no standby is left: b (gone: say)"},
		},
		"a_worker_that_left_is_not_missed": {
			members: []*member{a, withStatus("w", Gone, notEligible)},
			want:    Healthy,
		},
		"half_cut_off_is_critical": {
			members: []*member{a, b, withStatus("c", Partitioned), withStatus("d", Unreachable)},
			want:    Critical,
			reasons: []string{
				"2 of 4 members are cut off",
				"2 of 4 members are not healthy: c (partitioned: say), d (unreachable: say)",
			},
		},
		"less_than_half_cut_off_is_degraded": {
			members: []*member{
				a, b, withStatus("c", Healthy), withStatus("d", Unreachable), withStatus("e", Partitioned),
			},
			want:    Degraded,
			reasons: []string{"2 of 5 members are not healthy: d (unreachable: say), e (partitioned: say)"},
		},
		"members_that_are_gone_do_not_make_a_half_smaller": {
			members: []*member{
				a, b, withStatus("c", Unreachable), withStatus("w", Unreachable, notEligible),
				withStatus("x", Gone, notEligible),
			},
			want: Critical,
			reasons: []string{
				"2 of 4 members are cut off",
				"2 of 4 members are not healthy: c (unreachable: say), w (unreachable: say)",
			},
		},
		"a_standby_with_unknown_status_could_take_over": {
			members: []*member{a, withStatus("b", Unknown)},
			want:    Healthy,
		},
		"a_store_that_does_not_answer_degrades": {
			members: []*member{a, b},
			listErr: errors.New("out of order"),
			want:    Degraded,
			reasons: []string{"the members cannot be listed: out of order"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, reasons := assess(c.members, "a", "seat", c.listErr)
			if status != c.want || !slices.Equal(reasons, c.reasons) || reasons == nil {
				t.Errorf("got %s %q, want %s %q", status, reasons, c.want, c.reasons)
			}
		})
	}

	t.Run("a_reason_names_at_most_ten", func(t *testing.T) {
		var all []*member
		for i := range 13 {
			all = append(all, withStatus(fmt.Sprint(i), Healthy))
		}
		want := "0 (healthy), 1 (healthy), 2 (healthy), 3 (healthy), 4 (healthy), 5 (healthy), 6 (healthy), " +
			"7 (healthy), 8 (healthy), 9 (healthy) and 3 more"
		if got := list(all); got != want {
			t.Errorf("got %s", got)
		}
	})
}
