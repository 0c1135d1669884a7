package explore

import "github.com/regentd/regent/internal/mutant"

// protocolFaults are faults of the protocol beyond those that faults lists: in what a write is conditional on, in
// what an incarnation means, and in what fences, stores and reapers are for.
var protocolFaults = []fault{
	{"rule_3_an_unknown_heartbeat_counts_from_the_read_that_shows_it", "heartbeat.go",
		"\tasked := b.check\n", "\tasked := b.check\n\tif asked {\n\t\tb.deadline = c.now.Add(b.trust)\n\t}\n",
		explored + "TestOwnLeaseHolds/for_two_processes"},
	{"rule_4_a_renewal_is_not_conditional", "heartbeat.go",
		"\tr.Nonce = c.src.Nonce()\n\tr.Edits = 0\n", "\tr.Nonce = c.src.Nonce()\n\tr.Edits = 0\n\tr.Rev = \"*\"\n",
		explored + "TestOwnLeaseHolds/for_two_processes"},
	{"rule_4_a_release_is_not_conditional", "heartbeat.go",
		"\tvacant.Next = v.next\n", "\tvacant.Next = v.next\n\tvacant.Rev = \"*\"\n",
		explored + "TestOwnLeaseHolds/when_a_leader_steps_down"},
	{"rule_4_a_revocation_is_not_conditional", "watch.go",
		"\treturn vacatedBeat(&dead.rec, c.src.Nonce(), end.at, end.reason)\n",
		"\tr := vacatedBeat(&dead.rec, c.src.Nonce(), end.at, end.reason)\n\tr.Rev = \"*\"\n\treturn r\n",
		explored + "TestMemberHeartbeatHolds/for_two_members"},
	{"rule_4_a_release_removes_the_register", "heartbeat.go",
		"\tc.swap(e, vacateCall, vacant)\n", "\tc.send(e, vacateCall, Remove, driver.Record{Name: r.Name, Rev: r.Rev})\n",
		explored + "TestOwnLeaseHolds/when_a_leader_steps_down"},
	{"rule_4_a_revision_comes_again", "../explore/store.go",
		"\tr.Rev = strconv.FormatUint(rev, 10)\n", "\tr.Rev = strconv.Itoa(1 + strings.Count(s.records[i].Rev, \"1\"))\n",
		explored + "TestOwnLeaseHolds/with_reads_that_are_sent_late"},
	{"rule_1_a_claim_of_an_earlier_incarnation_counts", "leader.go",
		"\t} else if !c.member.is(k.who) {\n", "\t} else if c.member.phase != memberIn {\n",
		tested + "TestDeadlines"},
	{"an_incarnation_comes_again", "join.go",
		"\tw := c.cfg.memberLease()\n", "\tif m.beat.who.ID != \"\" {\n\t\twho = m.beat.who\n\t}\n\tw := c.cfg.memberLease()\n",
		explored + "TestMemberHeartbeatHolds/for_two_members"},
	{"rule_3_a_member_leaves_before_its_terms_have_ended", "member.go",
		"func (c *Core) resting() bool { return c.live == 0 }", "func (c *Core) resting() bool { return true }",
		explored + "TestMemberHeartbeatHolds/when_a_member_leaves_and_its_duty_stops_late"},
	{"a_fence_accepts_older_epochs", "../../token.go",
		"\tcase t.Epoch < highest.Epoch:\n\t\treturn tokenStale\n", "\tcase t.Epoch < highest.Epoch:\n\t\treturn tokenNewer\n",
		explored + "TestFenceHolds/for_two_processes"},
	{"a_paused_election_is_claimed", "candidate.go",
		"\tcase r.Paused:\n\t\treturn taken, Never\n", "",
		explored + "TestRequestsHold/when_an_election_with_a_lease_of_its_own_is_paused"},
	{"rule_9_the_reaper_is_not_told_that_a_duty_has_stopped", "former.go",
		"\t\tc.endBeat(b, t.cause)\n\t\tc.lifeline(b, true, false)\n", "\t\tc.endBeat(b, t.cause)\n",
		explored + "TestReaperHolds/of_a_process_whose_duty_stops_late"},
	{"the_reaper_is_told_too_early_a_deadline", "heartbeat.go",
		"\t\tl.Deadline = b.deadline\n", "\t\tl.Deadline = b.deadline - Time(b.trust)\n",
		explored + "TestReaperHolds/of_a_process_that_dies"},
	{"a_reaper_frees_whatever_it_finds", "../../lifeline.go",
		"\tcase l.Holder != dead:\n", "\tcase l.Vacant():\n",
		explored + "TestReaperHolds/of_a_member_that_dies"},
	{"rule_13_a_silent_member_is_revoked_at_once", "retire.go",
		"\t\tt.rested = c.now.Add(t.idle)\n\t\tt.phase = retireSilent\n", "\t\tc.swap(&t.entity, revokeCall, c.revoked(&t.dead))\n",
		explored + "TestRetirementHolds/of_a_member_that_has_crashed"},
	{"rule_13_a_silent_member_is_revoked_before_its_lease_has_passed", "retire.go",
		"\tif expires := t.dead.expires(); c.now < expires {\n", "\tif expires := t.dead.expires(); expires < 0 {\n",
		explored + "TestRetirementHolds/of_a_member_that_sleeps"},
}

// secondGuards are the edits of faults that two places of the core guard against, by the name of the fault.
var secondGuards = map[string]mutant.Edit{
	"rule_1_a_claim_of_an_earlier_incarnation_counts": {
		File: "internal/core/rollback.go",
		Old:  "\t\tif !c.cfg.OwnLease && !c.member.is(k.who) {\n\t\t\treturn true\n\t\t}\n",
		New:  "",
	},
}
