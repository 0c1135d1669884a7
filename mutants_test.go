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
		"		if t.Epoch == f.highest.Epoch {\n			t.Term, kept.Term = kept.Term, t.Term\n		}\n		if err := writeFence(f.Path, t); err != nil {\n",
		"TestFenceFile/the_file_is_one_line_with_the_epoch_and_the_term"},
	{"a_raise_does_not_read_the_file", "fence.go",
		"		f.mergeLocked(kept)\n		if t.against", "		_ = kept\n		if t.against",
		"TestFenceFileOfTwoProcesses/the_one_that_comes_later_does_not_lower_the_file"},
	{"a_raise_takes_no_lock", "fencelock_unix.go",
		"syscall.LOCK_EX|syscall.LOCK_NB", "syscall.LOCK_SH|syscall.LOCK_NB",
		"TestFenceFileOfTwoProcesses/the_file_never_falls_under_concurrency"},
	{"a_raise_waits_for_the_lock_for_ever", "fencelock_unix.go",
		"if busy && time.Now().After(end) {", "if busy && time.Now().After(end.Add(time.Minute)) {",
		"TestFenceLock/a_process_that_is_stopped_while_it_raises_does_not_stop_another_one"},
	{"a_file_is_read_once", "fence.go",
		"		time.AfterFunc(rereadAfter, func() { f.reread(h) })\n", "",
		"TestFenceFileOfTwoProcesses/a_cached_epoch_is_admitted_for_a_second_and_not_longer"},
	{"what_another_process_has_learned_has_a_grace", "fence.go",
		"		f.learned = time.Time{} // nobody here knows when that was\n", "		f.learned = time.Now()\n",
		"TestFenceFileOfTwoProcesses/a_cached_epoch_is_admitted_for_a_second_and_not_longer"},
	{"a_removed_file_lowers_the_fence", "fence.go",
		"	if kept.against(f.highest) != tokenNewer {\n		return // the file may also have been removed\n	}\n", "",
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
	{"the_end_of_an_incarnation_waits_for_a_request", "engine.go",
		"\tcase <-b.life.over:\n\t\treturn errUnconfirmed\n",
		"",
		"TestHungStore"},
	{"the_reaper_is_told_after_the_release", "seat.go",
		"\t\t\tt.life.end(t.cause)\n\t\t\te.lifeline(t.beat, true, false)\n\t\t}\n",
		"\t\t\tt.life.end(t.cause)\n\t\t}\n",
		"TestHungStore"},
	{"a_release_waits_for_a_request_without_bound", "seat.go",
		"\t\tcase <-limit.C: // a driver that does not heed its context: the release does without its answer\n",
		"",
		"TestHungStore"},
	{"the_alarm_for_a_stuck_duty_waits_for_the_release", "seat.go",
		"\t\tcase <-t.stopped:\n\t\tcase <-timer.C:\n\t\t\te.emit(Event{Kind: EventDutyStuck",
		"\t\tcase <-t.finished:\n\t\tcase <-timer.C:\n\t\t\te.emit(Event{Kind: EventDutyStuck",
		"TestHungStore"},
	{"no_lifeline_says_that_it_holds", "lifeline.go",
		"\t\tl.Holds = b.life.held.Load() > 0\n",
		"",
		"TestLifelines"},
	{"every_lifeline_says_that_it_holds", "lifeline.go",
		"\t\tl.Holds = b.life.held.Load() > 0\n",
		"\t\tl.Holds = true\n",
		"TestLifelines"},
	{"a_duty_starts_before_the_reaper_is_told", "seat.go",
		"\tif t.first {\n\t\te.lifeline(t.line, false, false)\n\t}\n",
		"",
		"TestLifelines"},
	{"the_reaper_is_not_told_that_nothing_is_held_any_more", "seat.go",
		"\tif last && t.beat == nil {\n",
		"\tif last && false {\n",
		"TestLifelines"},
	{"a_term_that_could_not_be_released_is_forgotten", "seat.go",
		"\tif t.beat != nil && t.kept {\n",
		"\tif false {\n",
		"TestHungStore"},
	{"a_won_election_is_not_read_after_the_next_heartbeat", "keep.go",
		"\t\te.checkClaims(b)\n",
		"",
		"TestLostClaim"},
	{"held_elections_are_not_swept", "read.go",
		"\tif now < e.sweepAt {\n\t\treturn nil\n",
		"\tif true {\n\t\treturn nil\n",
		"TestLostClaim"},
	{"the_sweep_does_not_begin_again", "read.go",
		"\te.sweepFrom = \"\"\n\tif to",
		"\tif to",
		"TestLostClaim"},
	{"a_notification_about_a_held_election_is_ignored", "read.go",
		"\t\ts.checkAt = max(e.clock.Now(), s.received.at+echoWait)\n",
		"",
		"TestLostClaim"},
	{"a_reconnect_sweeps_nothing", "round.go",
		"\t\t\te.sweepSoon()\n",
		"",
		"TestLostClaim"},
	{"a_save_that_meets_another_holder_goes_on", "term.go",
		"\t\te.received(t.s, got, nil, began)\n\t\te.end(fmt.Errorf(\"%w: %s now shows %s in epoch %d\", ErrLost, sent.Name, got.Holder, got.Epoch), \"\", t)\n",
		"\t\t_ = began\n",
		"TestLostClaim"},
	{"two_terms_with_one_epoch_are_not_reported", "follow.go",
		"\tif l.Epoch == s.lastHeld.Epoch && holderOf(l) != \"\" && holderOf(l) != s.lastHeld.Holder.ID {\n\t\treturn true // two terms had one epoch\n\t}\n",
		"",
		"TestLostClaim"},
	{"the_second_rollback_is_not_barred", "follow.go",
		"\tif l.Epoch < s.shown {\n\t\treturn true\n\t}\n",
		"",
		"TestRollback"},
	{"an_old_answer_counts_as_a_rollback", "follow.go",
		"\tif l.Epoch < highest && began.order <= s.learned || ",
		"\tif ",
		"TestRollback"},
	{"an_answer_older_than_what_a_request_was_shown_counts_as_a_rollback", "follow.go",
		" || l.Epoch < s.shown && began.order <= s.shownAt {\n",
		" {\n",
		"TestWhatAnyRequestShows"},
	{"a_term_that_only_a_request_was_shown_is_not_given_a_lease", "requests.go",
		"\t\t\ts.shown = l.Epoch\n",
		"",
		"TestWhatAnyRequestShows"},
	{"a_record_older_than_what_a_request_was_shown_is_claimed_on", "requests.go",
		"\t\t\ts.stale = s.stale || s.seen && s.lease.Epoch < l.Epoch\n",
		"",
		"TestWhatAnyRequestShows"},
	{"a_rollback_is_reported_at_every_read", "follow.go",
		"\ts.shown = l.Epoch\n",
		"",
		"TestWhatAnyRequestShows"},
	{"a_heartbeat_that_only_a_request_was_shown_does_not_count", "requests.go",
		"\t\th.see(l, began, e.clock.Now())\n",
		"",
		"TestWhatAnyRequestShows"},
	{"what_an_admin_reads_does_not_count", "admin.go",
		"\t\tsaw(l)\n",
		"",
		"TestWhatAnyRequestShows"},
	{"a_register_that_an_admin_does_not_find_does_not_count", "admin.go",
		"\t\tsaw(driver.Record{Name: name})\n",
		"",
		"TestWhatAnyRequestShows"},
	{"what_an_admin_writes_does_not_count", "admin.go",
		"\t\tsaw(got)\n",
		"\t\t_ = saw\n",
		"TestWhatAnyRequestShows"},
	{"a_joining_member_watches_its_register_by_itself", "keep.go",
		"\ts := e.sightOf(name)\n\ts.see(l, began, e.clock.Now())\n",
		"\ts := &sight{}\n\ts.see(l, began, e.clock.Now())\n",
		"TestWhatAnyRequestShows"},
	{"how_long_another_record_was_watched_counts", "follow.go",
		"\tif l.Via == \"\" && h.lease.Rev != l.Rev {\n",
		"\tif false {\n",
		"TestWhatAnyRequestShows"},
	{"a_named_successor_waits_for_its_poll", "follow.go",
		"\t\ts.checkAt = now.at + e.reservation()/3",
		"\t\t//",
		"TestPreemptWithoutNotifications"},
	{"a_heartbeat_that_had_moved_is_watched_on", "requests.go",
		"\th.moved = e.moment().order\n",
		"",
		"TestWhatARevocationShows/a_heartbeat_that_had_moved_and_comes_back_is_watched_anew"},
	{"a_conflict_says_nothing_of_the_record_that_was_watched", "requests.go",
		"\tif err != nil && !errors.Is(err, driver.ErrConflict) {\n\t\treturn began\n",
		"\tif err != nil {\n\t\treturn began\n",
		"TestWhatARevocationShows/a_heartbeat_that_had_moved_and_comes_back_is_watched_anew"},
	{"an_applied_swap_is_older_than_a_read_that_was_sent_later", "requests.go",
		"\tif h.began.order > began.order {\n\t\treturn h.began\n\t}\n",
		"",
		"TestWhatARevocationShows/an_applied_revocation_is_newer_than_a_read_that_was_sent_later"},
	{"an_older_read_begins_the_watch_of_a_record_that_has_moved", "follow.go",
		" || known && began.order < s.moved {\n",
		" {\n",
		"TestSightOfARecordThatHasMoved/not_one_that_was_sent_before"},
	{"an_old_answer_is_claimed_on", "follow.go",
		"\t\ts.stale = true\n\t\te.mu.Unlock()\n\t\te.kick()\n\t\treturn\n\t}\n\tnow := e.moment()\n\tif e.wentBack(s, l, highest) {\n",
		"\t}\n\tnow := e.moment()\n\tif began.order > s.learned && e.wentBack(s, l, highest) {\n",
		"TestRollback"},
	{"a_forgotten_join_counts_as_a_death", "follow.go",
		"\t\tif e.joinForgotten(s, h.lease) {\n",
		"\t\tif false {\n",
		"TestRollback"},
	{"incarnations_are_not_counted", "follow.go",
		"\tif heartbeat.Epoch > count || heartbeat.Epoch == count && heartbeat.Vacant() {\n",
		"\tif _ = count; heartbeat.Epoch > 0 {\n",
		"TestRollback"},
	{"a_save_does_not_check_its_record", "term.go",
		"\tif t.over.Load() || !t.holds(next) {\n",
		"\tif false {\n",
		"TestCheckpointOwner"},
	{"a_release_takes_any_term_of_its_holder", "follow.go",
		"got.Holder == l.Holder && got.Epoch == l.Epoch }",
		"got.Holder == l.Holder }",
		"TestCheckpointOwner"},
	{"an_edit_under_an_unknown_outcome_is_missed", "keep.go",
		"\tif err != nil && b.edited != nil {\n",
		"\tif errors.Is(err, driver.ErrConflict) && !newest && b.edited != nil {\n",
		"TestRequestsToLeaders"},
	{"an_edit_gives_time", "follow.go",
		"\tif !same && !edited {\n",
		"\tif !same {\n\t\t_ = edited\n",
		"TestRequestsToLeaders"},
	{"every_reported_epoch_is_believed", "member.go",
		" && epoch <= m.memory[election]+maxJump",
		"",
		"TestRequestsToLeaders"},
	{"refused_terms_follow_each_other_at_once", "seat.go",
		"\t\tt.s.holdBack = now + t.s.fencedAgain(now-t.began)\n",
		"",
		"TestRequestsToLeaders"},
	{"one_unreadable_register_holds_back_all_claims", "read.go",
		"\t\tanswered = answered || failed < len(part)\n",
		"\t\tanswered = failed == 0\n",
		"TestUnreadableRegister"},
	{"a_register_that_stays_unreadable_holds_back_all_claims", "read.go",
		"\t\treturn r.failed > 1 && e.answered >= r.since\n",
		"\t\treturn r == nil\n",
		"TestUnreadableRegister"},
	{"a_lock_that_cannot_be_read_is_read_all_the_time", "read.go",
		"\t\t\th.retry = *r //",
		"\t\t\t_ = h //",
		"TestUnreadableRegister"},
	{"a_lock_is_read_only_when_it_would_have_expired", "round.go",
		"\tend = min(later(h.began.at, e.untilPhase(h.began.at, h.lease.Duration/3)), end)\n",
		"\tif strings.HasPrefix(h.lease.Name, driver.MemberPrefix) {\n" +
			"\t\tend = min(later(h.began.at, e.untilPhase(h.began.at, h.lease.Duration/3)), end)\n\t}\n",
		"TestLostRenewals"},
	{"an_unreadable_register_is_not_reported", "read.go",
		"\tif report {\n",
		"\tif false {\n",
		"TestUnreadableRegister"},
	{"members_that_have_left_are_remembered", "roster.go",
		"\te.forgetMembers(found)\n",
		"",
		"TestManyMembers"},
	{"an_election_waits_for_the_list_of_members", "choose.go",
		"\t\t\tif now >= o.until || known",
		"\t\t\tif known",
		"TestManyMembers"},
	{"a_long_list_is_given_up", "read.go",
		"\t\tlimit.Reset(e.patience)\n",
		"",
		"TestManyMembers"},
	{"a_term_begins_while_its_engine_stops", "follow.go",
		"k >= 0 && s.cand != nil && !e.closed {",
		"k >= 0 && s.cand != nil {",
		"TestEngine"},
	{"a_panic_in_a_release_is_not_caught", "seat.go",
		"\tif err := protect(func() error { e.releaseAll(terms); return nil }); err != nil {",
		"\tif err := func() error { e.releaseAll(terms); return nil }(); err != nil {",
		"TestEngine"},
	{"contexts_wait_for_the_mutex", "keep.go",
		"\tfor t := range terms {\n\t\tt.cancel(cause)\n\t}\n",
		"\t_ = terms\n",
		"TestEngine"},
	{"observers_of_two_runs_overlap", "event.go",
		"\t\t\t<-before\n",
		"",
		"TestEngine"},
	{"a_duration_overflows", "follow.go",
		"\tif d > never-at {\n\t\treturn never\n\t}\n",
		"",
		"TestAbsurdRecords"},
	{"a_negative_duration_is_parsed", "driver/record.go",
		"\tif d < 0 {\n",
		"\tif false {\n",
		"TestAbsurdRecords"},
}

// TestMutantsApply checks that each mutant still fits the code.
func TestMutantsApply(t *testing.T) {
	for _, m := range mutants {
		if err := mutant.Check(".", mutant.Edit{File: m.file, Old: m.old, New: m.new}); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// TestMutants compiles the package with one fault, and has the test that is named find it. Each takes some seconds, so that
// without REGENT_MUTANTS, which "make soak" sets, only every tenth is tried.
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
			out, err := exec.CommandContext(t.Context(), binary, "-test.timeout", "40s", "-test.run", only).CombinedOutput()
			endless := spins[m.name] && bytes.Contains(out, []byte("panic: test timed out"))
			if err == nil || !endless && !caughtBy(m.caught, out) {
				t.Errorf("%s does not see it: %v\n%s", m.caught, err, out)
			}
		})
	}
}

// spins names the mutants with which a member asks the store again and again while virtual time stands still, so that the
// test never ends.
var spins = map[string]bool{"the_second_rollback_is_not_barred": true}

// caughtBy reports whether the output of a test shows that it has failed, or panicked. One that ran out of time proves nothing:
// the machine may have been slow.
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
