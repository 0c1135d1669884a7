package regent_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regentd/regent/internal/mutant"
)

// mutants are faults of the package. Each replaces a snippet that stands exactly once in a file, and
// must be caught by the test that is named.
var mutants = []struct{ name, file, old, new, caught string }{
	{"a_fence_is_raised_in_memory_before_its_file_is_written", "fence.go",
		"	if f.Path != \"\" {\n		unlock, err := lockFence(f.Path)\n",
		"	f.highest = t\n	f.publishLocked()\n	if f.Path != \"\" {\n		unlock, err := lockFence(f.Path)\n",
		"TestFenceFile/what_could_not_be_written_was_not_admitted"},
	{"equal_epochs_of_another_term_pass", "token.go",
		"	default: // another term with the same epoch, or one that does not say which\n		return tokenStale\n",
		"	default:\n		return tokenCurrent\n",
		"TestFenceOfTwoTerms/one_of_two_terms_with_one_epoch_is_admitted/in_memory"},
	{"the_accepted_path_compares_epochs_only", "token.go",
		"h = (h ^ uint64(t.Term[i])) * prime", "h = (h ^ uint64(i)) * prime",
		"TestFenceOfTwoTerms/one_of_two_terms_with_one_epoch_is_admitted/in_memory"},
	{"a_term_is_bound_in_memory_only", "fence.go",
		"		if err := writeFence(f.Path, t); err != nil {\n",
		"		if t.Epoch == f.highest.Epoch {\n			t.Term, kept.Term = kept.Term, t.Term\n		}\n" +
			"		if err := writeFence(f.Path, t); err != nil {\n",
		"TestFenceFile/the_file_is_one_line_with_the_epoch_and_the_term"},
	{"a_raise_does_not_read_the_file", "fence.go",
		"		f.mergeLocked(kept)\n		if t.against", "		_ = kept\n		if t.against",
		"TestFenceFileOfTwoProcesses/the_one_that_comes_later_does_not_lower_the_file"},
	{"a_raise_takes_no_lock", "fence_lock_unix.go",
		"syscall.LOCK_EX|syscall.LOCK_NB", "syscall.LOCK_SH|syscall.LOCK_NB",
		"TestFenceLock/the_lock_is_exclusive"},
	{"a_raise_waits_for_the_lock_for_ever", "fence_lock_unix.go",
		"if busy && time.Now().After(end) {", "if busy && time.Now().After(end.Add(time.Minute)) {",
		"TestFenceLock/a_process_that_is_stopped_while_it_raises_does_not_stop_another_one"},
	{"a_file_is_read_once", "fence.go",
		"		time.AfterFunc(rereadAfter, func() { f.reread(h) })\n", "",
		"TestFenceFileOfTwoProcesses/a_cached_epoch_is_admitted_for_a_second_and_not_longer"},
	{"what_another_process_has_learned_has_a_grace", "fence.go",
		"		f.learned = time.Time{} // nobody here knows when that was\n", "		f.learned = time.Now()\n",
		"TestFenceFileOfTwoProcesses/a_cached_epoch_is_admitted_for_a_second_and_not_longer"},
	{"a_removed_file_lowers_the_fence", "fence.go",
		"	if kept.against(f.highest) != tokenNewer {\n" +
			"		return // the file may also have been removed\n	}\n",
		"",
		"TestFenceFileOfTwoProcesses/a_file_that_is_removed_does_not_lower_the_fence"},
	{"every_term_of_the_last_epoch_has_the_grace", "fence.go",
		" || t.against(f.previous) == tokenStale {", " {",
		"TestFenceTerms/E11_the_grace_is_for_one_term_of_the_last_epoch"},
	{"the_grace_of_an_epoch_that_was_passed_over_binds_nobody", "fence.go",
		"	f.previous = t // so that the grace, too, is for one term\n", "",
		"TestFenceTerms/E11_the_first_late_term_of_an_epoch_that_was_passed_over_has_the_grace"},
	{"an_epoch_that_no_counting_reaches_is_believed", "token.go",
		"	if t.Epoch >= maxEpoch {\n", "	if t.Epoch == 1 && maxEpoch == 1 {\n",
		"TestFenceFile/a_file_that_no_fence_has_written_admits_nothing_and_stays"},
	{"a_term_may_have_spaces", "token.go",
		"t.Term[i] <= ' ' || ", "",
		"TestFenceTerms/what_no_term_can_have_is_refused"},
	{"the_guard_ends_no_term", "internal/shell/guard.go",
		"\t\tl.end(g.s.cause(core.Partitioned, \"\"))\n",
		"",
		"TestRuns"},
	{"validity_is_a_flag", "internal/shell/term.go",
		"return !t.over.Load() && t.shell.now() < t.lease.until() }",
		"return !t.over.Load() && t.lease.until() != expired }",
		"TestSuspendedMachine"},
	{"the_reaper_is_told_after_the_release", "internal/core/former.go",
		"\t\tc.endBeat(b, t.cause)\n\t\tc.lifeline(b, true, false)\n",
		"\t\tc.endBeat(b, t.cause)\n",
		"TestHungStore"},
	{"no_lifeline_says_that_it_holds", "internal/core/heartbeat.go",
		"\t\tl.Holds = b.held > 0\n",
		"",
		"TestLifelines"},
	{"every_lifeline_says_that_it_holds", "internal/core/heartbeat.go",
		"\t\tl.Holds = b.held > 0\n",
		"\t\tl.Holds = true\n",
		"TestLifelines"},
	{"a_duty_starts_before_the_reaper_is_told", "internal/core/leader.go",
		"\tif b.held == 1 { // the reaper knows before the duty begins\n\t\tc.lifeline(b, false, false)\n\t}\n",
		"",
		"TestLifelines"},
	{"the_reaper_is_not_told_that_nothing_is_held_any_more", "internal/core/former.go",
		"\tcase b.held == 0:\n\t\tc.lifeline(b, false, false)\n",
		"",
		"TestLifelines"},
	{"a_term_that_could_not_be_released_is_forgotten", "internal/core/former.go",
		"\t\t\te.unreleased = t.who\n",
		"",
		"TestHungStore"},
	{"a_won_election_is_not_read_after_the_next_heartbeat", "internal/core/member.go",
		"\tcase beatApplied:\n\t\tc.checkClaims()\n",
		"\tcase beatApplied:\n",
		"TestLostClaim"},
	{"held_elections_are_not_swept", "internal/core/sweep.go",
		"\t\tc.sweepLeft = max(c.sweepLeft, min(sweepBatch, len(c.held)))\n",
		"",
		"TestLostClaim"},
	{"the_sweep_does_not_begin_again", "internal/core/sweep.go",
		"\t\t\tc.sweepFrom = 0\n",
		"\t\t\tc.sweepLeft = 0\n\t\t\tbreak\n",
		"TestLostClaim"},
	{"a_notification_about_a_held_election_is_ignored", "internal/core/notice.go",
		"\t\te.check = max(c.now, e.received.Add(echoWait), 1)\n",
		"",
		"TestLostClaim"},
	{"a_reconnect_sweeps_nothing", "internal/core/notice.go",
		"\t\tc.sweepSoon()\n",
		"",
		"TestLostClaim"},
	{"a_slow_heir_reads_again_and_again", "internal/core/candidate.go",
		"\t\tif c.mergeable(e) && c.readLately(e) {\n",
		"\t\tif false {\n",
		"TestHeirs"},
	{"a_save_that_meets_another_holder_is_of_unknown_outcome", "internal/core/save.go",
		"e.saving && !e.settled ||",
		"e.saving ||",
		"TestLostClaim"},
	{"two_terms_with_one_epoch_are_not_reported", "internal/core/rollback.go",
		"\tif otherTerm(r, &e.rec) || e.otherHolder(r) {\n",
		"\tif holderOf(r) == \"*\" {\n",
		"TestLostClaim"},
	{"the_second_rollback_is_not_barred", "internal/core/rollback.go",
		"\tif r.Epoch < e.shown {\n\t\treturn true\n\t}\n",
		"",
		"TestRollback"},
	{"an_old_answer_counts_as_a_rollback", "internal/core/election.go",
		"\tif r.Epoch < highest && done.old {\n",
		"\tif false {\n",
		"TestRollback"},
	{"what_an_admin_reads_does_not_count", "edit.go",
		"\t\tm.shown(l)\n",
		"",
		"TestWhatAnyRequestShows"},
	{"what_an_admin_writes_does_not_count", "edit.go",
		"\t\tm.shown(got)\n",
		"",
		"TestWhatAnyRequestShows"},
	{"a_named_successor_waits_for_its_poll", "internal/core/election.go",
		"\t\te.check = c.now.Add(c.cfg.HeartbeatInterval / 3)",
		"\t\t//",
		"TestPreemptWithoutNotifications"},
	{"a_heartbeat_that_had_moved_is_watched_on", "internal/core/watch.go",
		"\tif w.seen && w.rec.Rev == rev {\n\t\tw.moved = last\n",
		"\tif w.seen && w.rec.Rev == rev {\n",
		"TestWhatARevocationShows/a_heartbeat_that_had_moved_and_comes_back_is_watched_anew"},
	{"a_forgotten_join_counts_as_a_death", "internal/core/rollback.go",
		"\tif c.joinForgotten(e, &s.watch.rec) {\n",
		"\tif false {\n",
		"TestRollback"},
	{"incarnations_are_not_counted", "internal/core/view.go",
		"\treturn heartbeat.Epoch > count || heartbeat.Epoch == count && heartbeat.Vacant()\n",
		"\t_ = count\n\treturn heartbeat.Epoch > 0\n",
		"TestRollback"},
	{"a_release_takes_any_term_of_its_holder", "internal/core/record.go",
		"\treturn r.Holder == who && r.Epoch == epoch\n",
		"\treturn r.Holder == who\n",
		"TestCheckpointOwner"},
	{"an_edit_gives_time", "internal/core/watch.go",
		"\tif !same && !edited {\n",
		"\tif !same {\n\t\t_ = edited\n",
		"TestRequestsToLeaders"},
	{"every_reported_epoch_is_believed", "internal/core/shown.go",
		" && epoch <= c.memory[name]+maxJump",
		"",
		"TestRequestsToLeaders"},
	{"refused_terms_follow_each_other_at_once", "internal/core/former.go",
		"\t\te.holdBack = c.now.Add(e.fencedAgain(time.Duration(c.now - t.began)))\n",
		"\t\t_ = time.Second\n",
		"TestRequestsToLeaders"},
	{"one_unreadable_register_holds_back_all_claims", "internal/shell/requests.go",
		"\treturn append(answers, failures...)\n",
		"\treturn append(failures, answers...)\n",
		"TestUnreadableRegister"},
	{"an_unreadable_register_is_not_reported", "internal/core/entity.go",
		"\tif answers && r.failed >= unreadable && !r.reported {\n",
		"\tif false {\n",
		"TestUnreadableRegister"},
	{"a_lock_is_read_only_when_it_would_have_expired", "internal/core/watch.go",
		"\treturn min(w.began.Add(w.rec.Duration/3), end)\n",
		"\treturn end\n",
		"TestLostRenewals"},
	{"nobody_fills_the_place_of_a_dead_watcher", "internal/core/watchers.go",
		"\t\tif !slices.Contains(known, id) {\n",
		"\t\tif false {\n",
		"TestStandbys"},
	{"the_list_of_watchers_is_never_refreshed", "internal/core/watchers.go",
		"\tlist := watchList{Enough: true, Members: 1}\n",
		"\tif r.published != nil {\n\t\treturn\n\t}\n\tlist := watchList{Enough: true, Members: 1}\n",
		"TestStandbys"},
	{"a_standby_watches_its_leader_never_again", "internal/core/idle.go",
		"\ts.idleUntil = c.idleUntil(list.Members)\n",
		"\ts.idleUntil = Never\n",
		"TestStandbys"},
	{"standbys_watch_their_leader_in_step", "internal/core/idle.go",
		"\tpast := (time.Duration(c.now) - c.phaseOf(d)) % d\n",
		"\tpast := time.Duration(c.now) % d\n",
		"TestStandbys"},
	{"a_successor_that_watches_seldom_is_not_called", "internal/core/former.go",
		"\tc.callSuccessor(next)\n",
		"",
		"TestStandbys"},
	{"everybody_watches_closely", "run.go",
		"Watchers: closeWatchers,",
		"Watchers: 0,",
		"TestStandbys"},
	{"members_that_have_left_are_remembered", "internal/core/peer.go",
		"\tif rec.Vacant() || rec.Name",
		"\tif !rec.Vacant() && rec.Name",
		"TestManyMembers"},
	{"a_long_list_is_given_up", "internal/shell/list.go",
		"\t\tlimit.Reset(j.sends[0].Timeout)\n",
		"",
		"TestManyMembers"},
	{"a_panic_of_the_driver_is_not_caught", "internal/shell/requests.go",
		"\t\tif v := recover(); v != nil {\n",
		"\t\tif v := any(nil); v != nil {\n",
		"TestRuns"},
	{"observers_of_two_runs_overlap", "event.go",
		"\t\t\t<-before\n",
		"",
		"TestRuns"},
	{"a_duration_overflows", "internal/core/input.go",
		"\tif d > 0 && t > Never-Time(d) {\n\t\treturn Never\n\t}\n",
		"",
		"TestAbsurdRecords"},
	{"a_negative_duration_is_parsed", "driver/record.go",
		"\tif d < 0 {\n",
		"\tif false {\n",
		"TestAbsurdRecords"},
	{"a_lease_is_counted_from_when_a_list_was_sent", "roster.go",
		"if s.see(l, received) {", "if s.see(l, sent) {",
		"TestMembersOverSlowAndFailingStores/a_slow_request_does_not_age_what_it_shows"},
	{"a_lease_is_counted_to_when_a_list_has_returned", "roster.go",
		"if s.judge(sent) {", "if s.judge(received) {",
		"TestMembersOverSlowAndFailingStores/a_slow_answer_does_not_age_what_it_shows"},
	{"an_edit_of_a_listed_register_gives_time", "roster.go",
		"	if first || l.Rev != before.Rev && !edited {\n", "	if _ = edited; first || l.Rev != before.Rev {\n",
		"TestMemberLiveness/an_edit_of_the_register_gives_no_time"},
	{"an_edit_that_was_lost_gives_no_time", "roster.go",
		"l.Edits > before.Edits", "l.Edits != before.Edits",
		"TestMembersOverSlowAndFailingStores/an_edit_that_the_store_has_lost_counts_anew"},
	{"a_change_of_the_revision_gives_no_time", "roster.go",
		"		s.since = received\n",
		"		s.since = max(s.since, received*time.Duration(1/s.state.Heartbeats))\n",
		"TestWatchManyMembers"},
	{"a_vacant_register_is_a_member", "roster.go",
		"	return !s.record.Vacant() && ", "	return s.record.Vacant() || ",
		"TestWatchMembers/members_that_join_and_leave_are_reported_by_notification"},
	{"a_register_of_somebody_else_is_a_member", "roster.go",
		" && s.record.Name == driver.MemberRegister(s.record.Holder.ID)", "",
		"TestMemberLiveness/a_register_that_no_member_has_written_is_not_alive"},
	{"a_register_that_cannot_be_read_is_gone", "roster.go",
		"				unreadable = append(unreadable, l.Name)\n", "",
		"TestMembersOverSlowAndFailingStores/a_register_that_cannot_be_read_keeps_its_member_for_its_lease"},
	{"a_register_that_is_gone_is_no_change", "roster.go",
		"		if now[name] == nil {\n", "		if name == \"\" {\n",
		"TestMembersOverSlowAndFailingStores/a_store_that_has_gone_back_shows_who_is_alive"},
	{"a_new_incarnation_is_no_change", "roster.go",
		"first || l.Holder != before.Holder || ", "first || ",
		"TestMemberLiveness/a_member_that_returns_is_a_new_incarnation"},
	{"a_new_address_is_no_change", "roster.go",
		"l.Addr != before.Addr || ", "",
		"TestWatchMembers/what_a_member_says_of_itself_is_reported_when_it_changes"},
	{"what_a_member_says_is_no_change", "roster.go",
		"!bytes.Equal(l.Data, before.Data)", "bytes.Equal(l.Data, nil) && false",
		"TestWatchMembers/what_a_member_says_of_itself_is_reported_when_it_changes"},
	{"a_list_of_members_has_no_timeout", "roster_watch.go",
		"context.WithTimeout(ctx, w.timeout)", "context.WithTimeout(ctx, time.Hour)",
		"TestMembersOverSlowAndFailingStores/a_store_that_hangs_is_an_error_and_nobody_dies_by_it"},
	{"the_end_of_trouble_is_not_reported", "roster_watch.go",
		"			news = true\n", "",
		"TestMembersOverSlowAndFailingStores/a_store_that_refuses_is_an_error_every_heartbeat_interval"},
	{"a_roster_is_not_notified", "roster_watch.go",
		"			w.notifications = notifier.Subscribe(ctx, driver.Prefix(driver.MemberPrefix))\n",
		"			_ = notifier\n",
		"TestWatchMembers/members_that_join_and_leave_are_reported_by_notification"},
	{"notifications_are_not_coalesced", "roster_watch.go",
		"	least := min(w.interval, time.Second) / 4\n", "	least := time.Nanosecond\n",
		"TestWatchManyMembers"},
	{"a_list_that_was_cut_off_is_an_error", "roster_watch.go",
		"		case ctx.Err() != nil:\n			return\n", "",
		"TestMembersOverSlowAndFailingStores/the_loop_ends_with_its_context_while_the_store_hangs"},
	{"a_driver_that_panics_ends_the_process", "roster.go",
		"	err = protect(func() error {\n", "	err = func(f func() error) error { return f() }(func() error {\n",
		"TestMembersOverSlowAndFailingStores/a_driver_that_panics_is_an_error"},
	{"members_are_not_sorted", "roster.go",
		"	slices.SortFunc(states, func(a, b MemberState) int { return strings.Compare(a.ID, b.ID) })\n",
		"	slices.SortFunc(states, func(a, b MemberState) int { return strings.Compare(b.ID, a.ID) })\n",
		"TestWatchManyMembers"},
	{"a_roster_shows_an_old_revision", "roster.go",
		"	s.state.Rev = l.Rev\n", "",
		"TestMemberLiveness/the_age_of_a_heartbeat_is_known_at_each_list"},
}

// TestMutantsApply checks that each mutant still fits the code.
func TestMutantsApply(t *testing.T) {
	for _, m := range mutants {
		if err := mutant.Check(".", mutant.Edit{File: m.file, Old: m.old, New: m.new}); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// TestMutants compiles the package with one fault, and has the test that is named find it. Each takes some seconds,
// so that without REGENT_MUTANTS, which "make soak" sets, only every tenth is tried.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package once for each mutant; left out in -short")
	}

	all := os.Getenv("REGENT_MUTANTS") != ""
	for i, m := range mutants {
		if !all && i%10 != 0 {
			continue
		}

		t.Run(m.name, func(t *testing.T) {
			dir := t.TempDir()
			list, err := mutant.Overlay(".", dir, mutant.Edit{File: m.file, Old: m.old, New: m.new})
			check(t, err)

			binary := filepath.Join(dir, "regent.test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", binary, "-overlay", list, ".")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("compile: %v\n%s", err, out)
			}

			only := "^" + strings.ReplaceAll(m.caught, "/", "$/^") + "$"
			test := exec.CommandContext(t.Context(), binary, "-test.timeout", "40s", "-test.run", only)
			out, err := test.CombinedOutput()
			endless := spins[m.name] && bytes.Contains(out, []byte("panic: test timed out"))
			if err == nil || !endless && !caughtBy(m.caught, out) {
				t.Errorf("%s does not see it: %v\n%s", m.caught, err, out)
			}
		})
	}
}

// spins names the mutants with which a member asks the store again and again while virtual time stands still, so that
// the test never ends.
var spins = map[string]bool{
	"the_second_rollback_is_not_barred": true, "refused_terms_follow_each_other_at_once": true,
}

// caughtBy reports whether the output of a test shows that it has failed, or panicked. One that ran out of time
// proves nothing: the machine may have been slow.
func caughtBy(test string, out []byte) bool {
	if bytes.Contains(out, []byte("panic: test timed out")) {
		return false
	}
	return bytes.Contains(out, []byte("--- FAIL: "+test)) || bytes.Contains(out, []byte("panic: "))
}

func TestCaughtBy(t *testing.T) {
	for out, want := range map[string]bool{
		"--- FAIL: TestX (0.00s)\nFAIL\n":                     true,
		"panic: runtime error: index out of range\n":          true,
		"panic: test timed out after 40s\n\trunning tests:\n": false,
		"--- FAIL: TestY (0.00s)\nFAIL\n":                     false,
		"ok\n":                                                false,
	} {
		if got := caughtBy("TestX", []byte(out)); got != want {
			t.Errorf("%q: caught %v, want %v", out, got, want)
		}
	}
}
