package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/elections"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/driver"
)

// TestExplainVacant checks what 'regent why --store' says of an election that nobody leads.
func TestExplainVacant(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cluster.Election)
		want   string
	}{
		"no_member_is_there": {func(*cluster.Election) {}, "no member campaigns for it: start a node"},
		"it_is_paused": {func(e *cluster.Election) { e.Paused = true },
			"the election is paused: nobody claims it until 'regent resume x'"},
		"a_candidate_is_unhealthy": {func(e *cluster.Election) {
			e.Candidates = []cluster.Candidate{{ID: "a", Why: "unhealthy"}}
		}, "a cannot lead: unhealthy"},
		"a_candidate_is_about_to_claim_it": {func(e *cluster.Election) {
			e.Candidates = []cluster.Candidate{{ID: "a", CanLead: true}}
		}, "a can lead, and has not claimed the election yet"},
	} {
		t.Run(name, func(t *testing.T) {
			e := cluster.Election{Name: "x", State: elections.Vacant, Epoch: 7}
			c.change(&e)
			x := explainVacant(e)
			if !strings.HasPrefix(x.Text, "nobody leads election x; the last epoch was 7") ||
				!slices.Contains(x.Because, c.want) {
				t.Errorf("%+v, want %q", x, c.want)
			}
		})
	}
}

// TestExplain checks what 'regent why' says in each case.
func TestExplain(t *testing.T) {
	able := func(id string, rank int) cluster.Candidate {
		return cluster.Candidate{ID: id, Rank: rank, CanLead: true, Eligible: true, Healthy: true, Alive: true}
	}
	led := func(change func(*subject)) *subject {
		leader := able("a", 1)
		leader.Leads = true
		x := &subject{node: "b", rank: "first", now: time.Now(), election: cluster.Election{
			Name: "x", State: elections.Led, Leader: "a", Holder: "a", Epoch: 7,
			Why:        &elections.Why{Text: "c was shut down and released the election"},
			Candidates: []cluster.Candidate{leader, able("b", 1)},
		}}
		x.own = &x.election.Candidates[1]
		change(x)
		return x
	}
	nobody := func(state elections.State) func(*subject) {
		return func(x *subject) {
			x.election.State = state
			x.election.Leader = ""
			x.election.Candidates[0].Leads = false
		}
	}
	status := func(check, text string) func(*subject) {
		return func(x *subject) {
			x.status = &cluster.Status{Election: "x"}
			x.status.Checks = map[string]string{check: text}
			x.own.CanLead = false
		}
	}

	for name, c := range map[string]struct {
		x    *subject
		want string
	}{
		"it_leads":                 {led(func(x *subject) { x.node = "a" }), "c was shut down"},
		"lost_the_race_to_another": {led(func(*subject) {}), "a won the race for epoch 7"},
		"after_a_handoff": {led(func(x *subject) {
			x.election.Why = &elections.Why{Reason: "handoff", Text: "c was asked to hand over"}
		}), "c was asked to hand over; a leads since"},
		"it_led_some_terms_before": {led(func(x *subject) {
			x.own = nil
			x.led = &driver.Past{Epoch: 4, Holder: "b", Reason: "died"}
		}), "it is no member any more: its last term, epoch 4, ended: the process of b died"},
		"worse_rank": {led(func(x *subject) { x.own.Rank = 2 }),
			"its rank is 2, worse than that of a, which is 1"},
		"better_rank_without_preempt": {led(func(x *subject) { x.election.Candidates[0].Rank = 3 }),
			"'regent handoff x --to b' hands over now"},
		"not_eligible": {led(func(x *subject) { x.own.Eligible, x.own.CanLead = false, false }),
			"eligible is false in its configuration"},
		"unhealthy_because_of_a_duty": {led(func(x *subject) {
			x.own.Healthy, x.own.CanLead = false, false
			x.duties = []regent.DutyState{{Name: "sync", InARow: 3, LastError: "exit code 1"}}
		}), "it is unhealthy: duty sync has failed 3 times in a row: exit code 1"},
		"unhealthy_because_of_the_health_check": {led(func(x *subject) {
			status("healthCheck", "health check (disk) has failed 3 times in a row: exit code 1")(x)
			x.own.Healthy = false
		}), "it is unhealthy: health check (disk) has failed 3 times in a row: exit code 1"},
		"unhealthy_as_the_leader_says": {led(func(x *subject) {
			x.own.Healthy, x.own.CanLead = false, false
			x.member = &cluster.Member{Why: "its health check fails"}
		}), "it is unhealthy: its health check fails"},
		"paused": {led(func(x *subject) { x.election.Paused = true }), "the election is paused"},
		"expired_heartbeat": {led(func(x *subject) { x.own.Alive, x.own.CanLead = false, false }),
			"its heartbeat has expired"},
		"takeover_delay": {led(nobody(elections.Expired)), "candidates wait for the takeover delay"},
		"others_go_first": {led(func(x *subject) {
			nobody(elections.Vacant)(x)
			x.own.Rank = 2
		}), "it lets a try first"},
		"reserved_for_another": {led(func(x *subject) {
			nobody(elections.Vacant)(x)
			x.election.Next = "c"
		}), "c is asked to take over"},
		"nothing_in_the_way": {led(nobody(elections.Vacant)), "nothing keeps it from leading"},
		"store_unreachable":  {led(status("store", "reads fail: refused")), "it cannot reach the store"},
		"store_unwritable":   {led(status("writes", "writes fail: full")), "it cannot write to the store"},
		"another_process_has_its_id": {led(status("member", `another process with member ID "b" is alive`)),
			`another process with member ID "b" is alive`},
		"another_process_with_its_id_leads": {led(func(x *subject) {
			status("member", "another process with its ID is alive")(x)
			x.node = "a"
		}), "another process with its ID is alive"},
		"it_does_not_answer": {led(func(x *subject) { x.silent = "it does not answer at h:1" }),
			"it does not answer at h:1"},
		"no_candidate": {led(func(x *subject) { x.own = nil }), "it does not campaign for this election"},
		"a_candidate_of_another_election": {led(func(x *subject) {
			x.own = nil
			x.status = &cluster.Status{Election: "y"}
		}), "it does not campaign for this election, but for y"},
	} {
		t.Run(name, func(t *testing.T) {
			e := c.x.explain()
			if got := strings.Join(e.Because, "; "); !strings.Contains(got,
				c.want) || e.Leads != (name == "it_leads") {
				t.Errorf("%s because %s", e.Text, got)
			}
		})
	}
}

// TestExplainOwn checks that a node which cannot read its store says so, also before its own check fails.
func TestExplainOwn(t *testing.T) {
	for check, want := range map[string]string{
		"ok":         "it cannot read the store redis://x: no answer",
		"reads fail": "it cannot reach the store redis://x: reads fail",
	} {
		x := &subject{node: "b", now: time.Now(), status: &cluster.Status{Election: "x"}}
		x.status.Checks = map[string]string{"store": check}
		x.status.Store.Address = "redis://x"
		e := x.explainOwn(errors.New("no answer"))
		if got := strings.Join(e.Because, "; "); got != want {
			t.Errorf("store %s: %q, want %q", check, got, want)
		}
	}
}

// TestBut checks that what is wrong all the same is no reason why a node leads, or does not.
func TestBut(t *testing.T) {
	leader := func() *subject {
		x := &subject{node: "a", now: time.Now(), status: &cluster.Status{Election: "x"}}
		x.status.Role = node.Leader
		x.status.Checks = map[string]string{"store": "reads fail"}
		x.election = cluster.Election{Name: "x", State: elections.Led, Leader: "a", Paused: true}
		return x
	}

	t.Run("a_leader_that_cannot_read_its_store_leads_in_spite_of_it", func(t *testing.T) {
		x := leader()
		e := x.explainOwn(errors.New("no answer"))
		if len(e.Because) != 0 || len(e.But) == 0 || !strings.Contains(e.But[0], "it cannot reach the store") {
			t.Errorf("because %q, but %q", e.Because, e.But)
		}
	})

	t.Run("a_leader_of_a_paused_election", func(t *testing.T) {
		e := leader().explain()
		if len(e.But) != 1 || !strings.Contains(e.But[0], "nobody takes over from it until 'regent resume x'") {
			t.Errorf("%q", e.But)
		}
	})

	t.Run("a_degraded_member", func(t *testing.T) {
		x := leader()
		x.election.Paused = false
		x.member = &cluster.Member{Status: health.Degraded, Why: "config: b has another token than a"}
		if e := x.explain(); len(e.But) != 1 || e.But[0] != "it is degraded: config: b has another token than a" {
			t.Errorf("%q", e.But)
		}
	})

	t.Run("the_silence_of_a_member_that_is_gone_is_no_news", func(t *testing.T) {
		x := leader()
		x.node, x.status, x.silent = "b", nil, "it does not answer"
		x.member = &cluster.Member{Status: health.Gone, Why: "its process died"}
		got := strings.Join(x.explain().Because, "; ")
		if strings.Contains(got, "does not answer") || !strings.Contains(got, "its process died; start it again") {
			t.Error(got)
		}
	})
}

// TestWhyOfFormerLeader asks for a member that led some terms before, and has died since.
func TestWhyOfFormerLeader(t *testing.T) {
	answers := map[string]any{
		"/v1/status": answer(`{"node": "a", "election": "x", "epoch": 3, "leader": "a"}`),
		"/v1/elections": answer(`{"elections": [{"name": "x", "state": "led", "leader": "a", "holder": "a", "epoch": 3,
			"why": {"previous": "c", "text": "c was shut down"}, "candidates": [{"id": "a", "leads": true}]}]}`),
		"/v1/members": answer(`{"members": [{"id": "a"}]}`),
		"/v1/elections/x/history": answer(`{"election": "x", "terms": [{"epoch": 1, "holder": "b", "reason": "died"},
			{"epoch": 2, "holder": "c", "reason": "shutdown"}]}`),
	}

	out, err := ask(t, whyCmd, answers, "b")
	if err != nil || !strings.Contains(out, "epoch 1") || !strings.Contains(out, "the process of b died") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := ask(t, whyCmd, answers, "nope"); err == nil || !strings.Contains(err.Error(), "there is no member") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestJudge checks how a verb has ended, as the record shows it.
func TestJudge(t *testing.T) {
	refused := &cluster.RefusedError{Code: "refused", Text: "there is no member"}
	for name, c := range map[string]struct {
		verb    cluster.Verb
		record  cluster.Record
		wait    bool
		failed  error
		outcome string
		over    bool
		text    string
	}{
		"the_successor_leads": {cluster.HandOff, cluster.Record{Leader: "b", Epoch: 8}, true, nil, "done",
			true, "b leads"},
		"another_took_over": {cluster.HandOff, cluster.Record{Leader: "c", Epoch: 8}, true, nil, otherLeader, true,
			"c took over instead of b"},
		"released": {cluster.HandOff, cluster.Record{Epoch: 7, Next: "b"}, false, nil, "done", true,
			"a has released"},
		"released_and_waits": {cluster.HandOff, cluster.Record{Epoch: 7, Next: "b"}, true, nil, "running",
			false, "waits for b"},
		"released_too_late": {cluster.HandOff, cluster.Record{Epoch: 7, Next: "b"}, false, errTimeout,
			"running", true,
			"it waits for b to claim it"},
		"duties_do_not_stop": {cluster.HandOff, cluster.Record{Leader: "a", Epoch: 7, Next: "b"}, false,
			refused, "running",
			true, "it waits for its duties to stop"},
		"refused": {cluster.HandOff, cluster.Record{Leader: "a", Epoch: 7}, false, refused, "refused", true,
			"there is no member"},
		"released_while_paused": {cluster.StepDown, cluster.Record{Epoch: 7, Paused: true}, false, nil, "done", true,
			"it is paused: nobody leads until 'regent resume x'"},
		"paused_while_it_waits": {cluster.StepDown, cluster.Record{Epoch: 7, Paused: true}, true, nil, "running", false,
			"it waits for 'regent resume x': it is paused"},
		"paused": {cluster.Pause, cluster.Record{Leader: "a", Epoch: 7, Paused: true}, false, nil, "done",
			true, "is paused"},
		"not_paused": {cluster.Pause, cluster.Record{Leader: "a", Epoch: 7}, false, refused, "refused", true,
			"no member"},
		"resumed_and_nobody_leads": {cluster.Resume, cluster.Record{Epoch: 7}, true, nil, "running", false,
			"waits for a candidate"},
		"resumed": {cluster.Resume, cluster.Record{Epoch: 7}, false, nil, "done", true, "is resumed"},
	} {
		t.Run(name, func(t *testing.T) {
			v := &steering{session: &session{cluster: &cluster.Store{}},
				steerOptions: steerOptions{verb: c.verb, epoch: 7},
				election:     cluster.Election{Name: "x", Holder: "a", State: elections.Led}}
			if c.verb == cluster.HandOff {
				v.to = "b"
			}
			o, over := v.judge(c.record, c.wait, c.failed)
			if o.Outcome != c.outcome || over != c.over || !strings.Contains(o.Text, c.text) {
				t.Errorf("%+v, over %v", o, over)
			}
		})
	}
}
