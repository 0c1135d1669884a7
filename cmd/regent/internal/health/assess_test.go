package health

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/regentd/regent"
)

func TestAssess(t *testing.T) {
	// is makes a candidate.
	is := func(id string, s Status, change ...func(*member)) *member {
		m := &member{status: s, sight: sight{view: regent.MemberView{ID: id,
			MemberInfo: regent.MemberInfo{Eligible: true, Healthy: true, Elections: []string{"seat"}}}}}
		if s != Healthy {
			m.why = "say"
		}
		for _, f := range change {
			f(m)
		}
		return m
	}
	worker := func(m *member) { m.view.Eligible = false }
	other := func(m *member) { m.view.Elections = []string{"other"} }
	sick := func(m *member) { m.view.Healthy = false }
	died := func(m *member) { m.died = true }
	a := is("a", Healthy)
	for name, c := range map[string]struct {
		members []*member
		trouble error
		want    Status
		reasons []string
	}{
		"C21_a_single_node_is_healthy":     {members: []*member{a}, want: Healthy},
		"all_healthy_is_healthy":           {members: []*member{a, is("b", Healthy), is("c", Healthy)}, want: Healthy},
		"a_leader_with_workers_is_healthy": {members: []*member{a, is("w", Healthy, worker), is("x", Healthy, worker)}, want: Healthy},
		"no_register_at_all_is_said": {want: Healthy,
			reasons: []string{"no member registers itself, so that only this leader is known"}},
		"one_degraded_member_degrades": {members: []*member{a, is("b", Degraded), is("c", Healthy)}, want: Degraded,
			reasons: []string{"1 of 3 members is not healthy: b (degraded: say)"}},
		"all_that_are_not_healthy_are_named": {members: []*member{a, is("b", Partitioned), is("c", Degraded), is("d", Healthy), is("e", Healthy)},
			want: Degraded, reasons: []string{"2 of 5 members are not healthy: b (partitioned: say), c (degraded: say)"}},
		"one_that_is_gone_is_no_member": {members: []*member{a, is("b", Healthy), is("c", Gone), is("d", Gone, died)}, want: Healthy},
		"a_degraded_leader_degrades":    {members: []*member{is("a", Degraded)}, want: Degraded, reasons: []string{"1 of 1 members is not healthy: a (degraded: say)"}},
		"a_slow_standby_is_a_standby":   {members: []*member{a, is("b", Degraded)}, want: Degraded, reasons: []string{"1 of 2 members is not healthy: b (degraded: say)"}},
		"a_standby_that_does_not_campaign_is_none": {members: []*member{a, is("b", Degraded, sick)}, want: Critical,
			reasons: []string{"no other member could take over: b (degraded: say)", "1 of 2 members is not healthy: b (degraded: say)"}},
		"a_worker_is_no_standby": {members: []*member{a, is("b", Unreachable), is("w", Healthy, worker), is("x", Healthy, other)}, want: Critical,
			reasons: []string{"no other member could take over: b (unreachable: say)", "1 of 4 members is not healthy: b (unreachable: say)"}},
		"a_standby_that_died_is_missed": {members: []*member{a, is("b", Gone, died)}, want: Critical,
			reasons: []string{"no other member could take over: b (gone: say)"}},
		"a_standby_that_left_leaves_no_standby": {members: []*member{a, is("b", Gone)}, want: Degraded,
			reasons: []string{"no standby is left: b (gone: say)"}},
		"a_worker_that_left_is_not_missed": {members: []*member{a, is("w", Gone, worker)}, want: Healthy},
		"half_cut_off_is_critical": {members: []*member{a, is("b", Healthy), is("c", Partitioned), is("d", Unreachable)}, want: Critical,
			reasons: []string{"2 of 4 members are cut off", "2 of 4 members are not healthy: c (partitioned: say), d (unreachable: say)"}},
		"less_than_half_is_not": {members: []*member{a, is("b", Healthy), is("c", Healthy), is("d", Unreachable), is("e", Partitioned)}, want: Degraded,
			reasons: []string{"2 of 5 members are not healthy: d (unreachable: say), e (partitioned: say)"}},
		"the_gone_do_not_make_a_half_smaller": {members: []*member{a, is("b", Healthy), is("c", Unreachable), is("w", Unreachable, worker), is("x", Gone, worker)},
			want: Critical, reasons: []string{"2 of 4 members are cut off", "2 of 4 members are not healthy: c (unreachable: say), w (unreachable: say)"}},
		"one_that_is_not_known_yet_has_the_benefit_of_the_doubt": {members: []*member{a, is("b", Unknown)}, want: Healthy},
		"a_store_that_does_not_answer_degrades": {members: []*member{a, is("b", Healthy)}, trouble: errors.New("out of order"), want: Degraded,
			reasons: []string{"the members cannot be listed: out of order"}},
	} {
		t.Run(name, func(t *testing.T) {
			status, reasons := assess(c.members, "a", "seat", c.trouble)
			if status != c.want || !slices.Equal(reasons, c.reasons) || reasons == nil {
				t.Errorf("got %s %q, want %s %q", status, reasons, c.want, c.reasons)
			}
		})
	}

	t.Run("a_reason_names_ten_at_most", func(t *testing.T) {
		var all []*member
		for i := range 13 {
			all = append(all, is(fmt.Sprint(i), Healthy))
		}
		want := "0 (healthy), 1 (healthy), 2 (healthy), 3 (healthy), 4 (healthy), 5 (healthy), 6 (healthy), 7 (healthy), 8 (healthy), 9 (healthy) and 3 more"
		if got := list(all); got != want {
			t.Errorf("got %s", got)
		}
	})
}
