package explore

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regentd/regent/internal/mutant"
)

// fault is a fault of the core: it replaces a snippet that stands exactly once in a file, whose path counts from that
// of the core, and must be caught by the test that is named: of this package, of the core itself, or of the
// simulation of cores.
type fault struct{ name, file, old, new, caught string }

const root = "../.." // of the repository

const (
	explored  = "explore:"
	tested    = "core:"
	simulated = "sim:"
)

var packages = map[string]string{explored: ".", tested: "../core", simulated: "../sim/cores"}

var faults = []fault{
	{"rule_1_deadline_counts_from_the_answer", "heartbeat.go",
		"\tasked := b.check\n", "\tb.deadline = c.now.Add(b.trust)\n\tasked := b.check\n",
		explored + "TestOwnLeaseHolds/for_two_processes"},
	{"rule_1_a_claim_counts_from_its_answer", "leader.go",
		"\t\tb.deadline = k.sent.Add(b.trust)\n", "\t\tb.deadline = c.now.Add(b.trust)\n",
		explored + "TestOwnLeaseHolds/for_two_processes"},
	{"rule_1_the_lease_is_shorter_than_the_deadline", "core.go",
		"return w - w/500 - cfg.StopTimeout", "return w + w/2",
		explored + "TestOwnLeaseHolds/for_two_processes"},
	{"rule_2_an_observer_counts_from_before_its_read", "watch.go",
		"\t\tw.since = c.now\n", "\t\tw.since = by.sent\n",
		explored + "TestOwnLeaseHolds/with_reads_that_are_sent_late"},
	{"rule_2_a_heartbeat_expires_at_once", "watch.go",
		"w.began >= w.expires().Add(delay)", "w.began >= w.since",
		explored + "TestOwnLeaseHolds/for_two_processes"},
	{"rule_3_any_nonce_counts_as_the_last_attempt", "heartbeat.go",
		"\tk := slices.IndexFunc(b.tries, func(t try) bool { return t.nonce == r.Nonce })\n",
		"\tk := len(b.tries) - 1\n",
		explored + "TestOwnLeaseHolds/when_the_store_loses_writes"},
	{"rule_3_a_released_claim_is_believed_again", "leader.go",
		"\te.claims = nil\n\te.open", "\te.open",
		explored + "TestOwnLeaseHolds/when_a_leader_steps_down"},
	{"rule_4_a_release_resets_the_epoch", "record.go",
		"Rev: r.Rev, Epoch: r.Epoch, Nonce: nonce", "Rev: r.Rev, Epoch: 0, Nonce: nonce",
		explored + "TestOwnLeaseHolds/when_a_leader_steps_down"},
	{"rule_4_a_release_takes_any_record", "former.go",
		"case !heldBy(r, v.who, v.epoch):", "case r.Vacant():",
		explored + "TestOwnLeaseHolds/when_outcomes_are_unknown"},
	{"rule_5_a_rollback_is_not_waited_for", "rollback.go",
		"\te.barred = max(e.barred, c.now.Add(wait))\n", "\t_ = wait\n",
		explored + "TestOwnLeaseHolds/when_the_store_loses_writes"},
	{"rule_5_a_claim_ignores_the_highest_epoch_seen", "claim.go",
		"\treturn max(r.Epoch, c.memory[e.name], c.floor.epoch) + 1\n", "\treturn r.Epoch + 1\n",
		explored + "TestOwnLeaseHolds/when_the_store_loses_writes"},
	{"rule_5_a_forgotten_join_counts_as_a_death", "rollback.go",
		"\te.forgotten = holder\n\treturn true\n", "\treturn false\n",
		explored + "TestMemberHeartbeatHolds/when_the_store_loses_writes"},
	{"rule_5_the_wait_never_ends", "rollback.go",
		"\te.barred = max(e.barred, c.now.Add(wait))\n", "\te.barred = Never\n\t_ = wait\n",
		explored + "TestOwnLeaseHolds/when_the_store_loses_writes"},
	{"rule_6_its_own_election_is_neither_adopted_nor_released", "candidate.go",
		"\t\tc.settleOwn(e)\n\t\treturn\n\t}\n\tc.contend(e)\n", "\t\treturn\n\t}\n\tc.contend(e)\n",
		explored + "TestMemberHeartbeatHolds/when_an_outcome_is_unknown"},
	{"rule_6_a_held_election_is_claimed", "candidate.go",
		"\treturn taken, Never // the sight wakes the election\n", "\treturn free, 0\n",
		explored + "TestMemberHeartbeatHolds/for_two_members"},
	{"a_heartbeat_is_not_revoked_before_the_claim", "candidate.go",
		"\t\treturn dead, 0\n", "\t\treturn free, 0\n",
		explored + "TestMemberHeartbeatHolds/for_two_members"},
	{"a_death_is_taken_from_an_older_read", "candidate.go",
		"\tif s.proof <= e.after {\n", "\tif s.proof == 0 {\n",
		tested + "TestExpiry"},
	{"a_member_joins_over_a_live_incarnation", "join.go",
		"\tif !r.Vacant() && !slices.Contains(c.endings, r.Holder) {\n",
		"\tif slices.Contains(c.endings, driver.Identity{}) {\n",
		explored + "TestMemberHeartbeatHolds/for_two_processes_with_one_id"},
	{"rule_7_a_new_incarnation_does_not_wait_for_duties", "member.go",
		"\tif m.beat.held > 0 {\n\t\treturn\n\t}\n", "",
		tested + "TestMember"},
	{"rule_7_a_term_is_not_ended_before_its_deadline", "leader.go",
		"\tif c.now >= b.guardAt() { // rule 9", "\tif c.now < 0 { // rule 9",
		tested + "TestDeadlines"},
	{"rule_7_a_release_does_not_wait_for_the_duty", "former.go",
		"\tt.state = stopping\n", "\tt.state = releasing\n",
		tested + "TestEndOfTerm"},
	{"rule_7_the_event_is_sent_before_the_release", "former.go",
		"\tc.emit(End{Election: e.name", "\tc.emit(Event{Kind: EventLostLeadership})\n\tc.emit(End{Election: e.name",
		tested + "TestEndOfTerm"},
	{"rule_9_the_terms_of_a_lost_heartbeat_go_on", "member.go",
		"\t\tc.elections.all[i].doom = cause\n", "",
		tested + "TestMember"},
	{"rule_9_the_next_join_waits_for_a_hung_heartbeat", "member.go",
		"\tm.call = call{} // rule 9", "\t// rule 9",
		tested + "TestFailingRenewals"},
	{"rule_9_a_failing_renewal_is_tried_again_at_once", "heartbeat.go",
		"\tb.due = c.now.Add(c.cfg.RenewBackoff[b.failed])\n", "\tb.due = c.now\n",
		tested + "TestFailingRenewals"},
	{"rule_10_there_is_no_takeover_delay", "watch.go",
		"w.began >= w.expires().Add(delay)", "w.began >= w.expires()",
		tested + "TestExpiry"},
	{"rule_10_a_heartbeat_is_not_read_after_the_takeover_delay", "watch.go",
		"\tend := w.expires().Add(delay)\n", "\tend := w.expires()\n",
		explored + "TestMemberHeartbeatHolds/with_a_takeover_delay"},
	{"rule_10_there_is_a_delay_after_a_release", "candidate.go",
		"\t\treturn free, 0\n\tcase r.Via == \"\" && e.own.expired",
		"\t\treturn taken, Never\n\tcase r.Via == \"\" && e.own.expired",
		tested + "TestNotices"},
	{"rule_11_a_request_is_sent_before_the_jitter_has_passed", "step.go",
		"\tif !c.started || c.now < c.startAt {", "\tif !c.started {",
		tested + "TestStartUp"},
	{"rule_12_nothing_is_polled", "candidate.go",
		"\treturn e.seen && !e.stale && (c.now < e.pollAt || c.idling(e)) && !expiring\n",
		"\treturn e.seen && !e.stale && !expiring\n",
		tested + "TestNotices"},
	{"rule_12_an_old_notification_is_claimed_on", "notice.go",
		" || r.Epoch != c.memory[e.name]:\n", ":\n",
		tested + "TestNotices"},
	{"rule_2_a_heartbeat_that_comes_back_was_watched_all_the_time", "watch.go",
		"\tsame := known && w.moved == 0\n", "\tsame := known\n",
		tested + "TestRecordsThatComeBack"},
	{"a_lock_is_read_only_when_it_would_have_expired", "watch.go",
		"\treturn min(w.began.Add(w.rec.Duration/3), end)\n", "\treturn end\n",
		tested + "TestReadsOfALock"},
	{"a_proof_of_death_is_not_heeded", "watch.go",
		"\treturn w.gone || w.began", "\treturn w.began",
		tested + "TestEndings"},
	{"rule_2_an_edit_gives_time", "watch.go",
		"\tif !same && !edited {\n", "\tif !same {\n\t\t_ = edited\n",
		tested + "TestExpiry"},
	{"rule_5_two_holders_of_one_epoch_are_not_noticed", "rollback.go",
		"\t\treturn true // two terms had one epoch\n", "\t\treturn false\n",
		tested + "TestRollback"},
	{"rule_5_an_old_answer_counts_as_a_rollback", "election.go",
		"\tif r.Epoch < highest && done.old {\n", "\tif false {\n",
		tested + "TestRollback"},
	{"rule_5_every_reported_epoch_is_believed", "shown.go",
		" && epoch <= c.memory[name]+maxJump {\n", " {\n",
		tested + "TestRollback"},
	{"rule_5_what_a_late_answer_shows_is_forgotten", "shown.go",
		"\tc.overhear(r.Name, r.Epoch) // rule 5", "\t// rule 5",
		tested + "TestRollback"},
	{"a_holder_that_has_joined_again_has_no_head_start", "rank.go",
		"\tif c.returned(r) || r.Next", "\tif r.Next",
		tested + "TestExpiry"},
	{"a_successor_waits_for_its_poll", "election.go",
		"\t\te.check = c.now.Add(c.cfg.HeartbeatInterval / 3) //", "\t\t//",
		tested + "TestRequestsToOthers"},
	{"rule_1_deadline_counts_from_the_answer_in_a_large_cluster", "heartbeat.go",
		"\tasked := b.check\n", "\tb.deadline = c.now.Add(b.trust)\n\tasked := b.check\n",
		simulated + "TestSeeds"},
	{"rule_5_a_claim_ignores_the_highest_epoch_seen_in_a_large_cluster", "claim.go",
		"\treturn max(r.Epoch, c.memory[e.name], c.floor.epoch) + 1\n", "\treturn r.Epoch + 1\n",
		simulated + "TestSeeds"},
	{"rule_6_nothing_of_its_own_is_given_back_in_a_large_cluster", "candidate.go",
		"\t\tc.settleOwn(e)\n\t\treturn\n\t}\n\tc.contend(e)\n", "\t\treturn\n\t}\n\tc.contend(e)\n",
		simulated + "TestSeeds"},
	{"a_member_joins_over_a_live_incarnation_in_a_large_cluster", "join.go",
		"\tif !r.Vacant() && !slices.Contains(c.endings, r.Holder) {\n",
		"\tif slices.Contains(c.endings, driver.Identity{}) {\n",
		simulated + "TestSeeds"},
	{"a_claim_of_unknown_outcome_is_forgotten", "claim.go",
		"\tcase Conflict, NotSent: //", "\tcase Conflict, NotSent, Unknown: //",
		tested + "TestUnknownOutcomes"},
	{"a_won_election_is_not_read_after_the_next_heartbeat", "member.go",
		"\t\tc.checkClaims()\n", "",
		tested + "TestMember"},
	{"held_elections_are_not_swept", "sweep.go",
		"\tif c.now >= c.sweepAt && len(c.held) > 0 {\n", "\tif false {\n",
		tested + "TestMember"},
	{"a_sweep_of_many_batches_takes_longer", "sweep.go",
		"max(half/time.Duration(batches), ", "max(half/2, ",
		tested + "TestSweep"},
	{"a_member_that_was_dropped_has_left", "member.go",
		" == memberOut && len(c.endings) == 0 }", " == memberOut }",
		tested + "TestLeft"},
	{"a_withdrawal_is_forgotten_by_the_next_campaign", "former.go",
		"\tif e.withdrawn {\n", "\tif e.withdrawn && !e.wanted {\n",
		tested + "TestCandidacy"},
	{"a_request_that_a_heartbeat_meets_is_missed", "member.go",
		"\t\t\tc.poked() // whoever", "\t\t\t// whoever",
		tested + "TestRequestsToThisLeader"},
	{"a_save_gives_time", "save.go",
		"\tnext.Edits++\n\te.saveRev", "\tnext.Nonce = c.src.Nonce()\n\te.saveRev",
		tested + "TestSave"},
	{"a_reservation_counts_from_an_earlier_record", "election.go",
		"\t\te.open = false // a reservation", "\t\te.open = e.open // a reservation",
		tested + "TestRequestsToOthers"},
	{"a_request_waits_for_a_record_that_cannot_be_read", "election.go",
		"\tc.expireAsks(e)\n", "",
		tested + "TestRequestsToThisLeader"},
	{"a_request_whose_time_is_up_calls_the_core_for_ever", "request.go",
		"\tif len(e.asks) > 0 && c.now < e.asks[0].until {", "\tif len(e.asks) > 0 {",
		tested + "TestRequestsToThisLeader"},
	{"an_edit_of_a_replaced_heartbeat_gives_no_time", "watch.go",
		"w.seen && !w.other && r.Holder", "w.seen && r.Holder",
		tested + "TestMovedWatch"},
	{"the_notification_of_its_own_claim_delays_a_term", "claim.go",
		"\t\tdone.old = done.old && r.Epoch < c.memory[e.name]\n", "",
		tested + "TestNotices"},
	{"rule_13_a_register_that_was_held_a_moment_ago_counts_as_removed", "floor.go",
		"<= c.floor.epoch && !c.heldLately(e):", "<= c.floor.epoch:",
		tested + "TestFloor"},
	{"a_request_waits_for_one_that_came_before_it", "request.go",
		"func(p poke) bool { return c.now >= p.until })", "func(p poke) bool { return c.now >= s.pokes[0].until })",
		tested + "TestRequestsToOthers"},
	{"a_write_serves_a_request_that_came_after_it", "request.go",
		"\t\tif p.sent && o == Done {\n", "\t\tif o == Done {\n",
		tested + "TestRequestsToOthers"},
	{"the_leader_is_not_touched_by_a_request", "request.go",
		"\tif r.Vacant() || r.Via == \"\" || r.Holder.ID == c.cfg.ID {", "\tif r.Vacant() || true {",
		tested + "TestRequestsToOthers"},
}

func allFaults() []fault {
	return slices.Concat(faults, protocolFaults, rankFaults, idleFaults, retireFaults, knownFaults)
}

// TestMutantsApply has every fault applied, without a test that finds it: TestMutants tries some of them only.
func TestMutantsApply(t *testing.T) {
	for _, f := range allFaults() {
		if err := mutant.Check(root, f.edits()...); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}

// TestMutants compiles a core with one fault, and has the test that is named find it. Each takes some seconds, so
// that without REGENT_MUTANTS, which "make soak" sets, only every tenth is tried.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package once for each mutant; left out in -short")
	}
	all := os.Getenv("REGENT_MUTANTS") != ""
	for i, f := range allFaults() {
		if !all && i%10 != 0 {
			continue
		}
		t.Run(f.name, func(t *testing.T) { f.mustBeCaught(t) })
	}
}

func (f *fault) edits() []mutant.Edit {
	all := []mutant.Edit{{File: path.Join("internal/core", f.file), Old: f.old, New: f.new}}
	if also, ok := secondGuards[f.name]; ok {
		all = append(all, also)
	}
	return all
}

func (f *fault) mustBeCaught(t *testing.T) {
	dir := t.TempDir()
	list, err := mutant.Overlay(root, dir, f.edits()...)
	if err != nil {
		t.Fatal(err)
	}

	kind, test, _ := strings.Cut(f.caught, ":")
	pkg := packages[kind+":"]
	binary := filepath.Join(dir, "mutant.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", binary, "-overlay", list, pkg)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	only := "^" + strings.ReplaceAll(test, "/", "$/^") + "$"
	run := exec.CommandContext(t.Context(), binary, "-test.timeout", "5m", "-test.run", only)
	if kind+":" == explored {
		run.Args = append(run.Args, "-explore.deep") // a violation shows long before all is explored
	}
	run.Dir = pkg
	out, err := run.CombinedOutput()
	if err == nil || !caught(out, test) {
		t.Errorf("%s does not see it: %v\n%s", f.caught, err, out)
		return
	}
	t.Log(firstFailure(out))
}

// caught reports whether a test has failed or the core has panicked. A test that has hung proves nothing.
func caught(out []byte, test string) bool {
	if bytes.Contains(out, []byte("panic: test timed out")) {
		return false
	}
	return bytes.Contains(out, []byte("--- FAIL: "+test)) || bytes.Contains(out, []byte("panic: "))
}

func TestCaught(t *testing.T) {
	for out, want := range map[string]bool{
		"--- FAIL: TestX (0.00s)":                                true,
		"panic: runtime error: index out of range":               true,
		"--- FAIL: TestY (0.00s)":                                false,
		"panic: test timed out after 5m0s\n--- FAIL: TestX":      false,
		"panic: test timed out after 5m0s\nrunning tests: TestX": false,
	} {
		if got := caught([]byte(out), "TestX"); got != want {
			t.Errorf("%q: %v", out, got)
		}
	}
}

// firstFailure returns the line that says what went wrong.
func firstFailure(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "_test.go:") && !strings.Contains(line, "states,") {
			return strings.TrimSpace(line)
		}
	}
	return "failed"
}
