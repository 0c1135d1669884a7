package regent_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fenceMutants are faults of a fence. Each replaces a snippet that stands exactly once in a file,
// and must be caught by the test that is named.
var fenceMutants = []struct{ name, file, old, new, caught string }{
	{"a_fence_is_raised_in_memory_before_its_file_is_written", "fence.go",
		"	if f.Path != \"\" {\n		unlock, err := lockFence(f.Path)\n",
		"	f.highest = t\n	f.publishLocked()\n	if f.Path != \"\" {\n		unlock, err := lockFence(f.Path)\n",
		"TestFenceFile/what_could_not_be_written_was_not_admitted"},
	{"equal_epochs_of_another_term_pass", "fence.go",
		"	default: // another term with the same epoch, or one that does not say which\n		return tokenStale\n",
		"	default:\n		return tokenCurrent\n",
		"TestFenceOfTwoTerms/one_of_two_terms_with_one_epoch_is_admitted/in_memory"},
	{"the_accepted_path_compares_epochs_only", "fence.go",
		" && len(t.Term) == incarnationLen && h.has(t.Term) {", " {",
		"TestFenceOfTwoTerms/one_of_two_terms_with_one_epoch_is_admitted/in_memory"},
	{"the_accepted_path_leaves_out_a_word", "fence.go",
		"(a.words[1]^le.Uint64(b[8:]))|", "",
		"TestFenceTerms/two_terms_that_differ_in_one_character_are_told_apart"},
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
		"		time.AfterFunc(rereadAfter, func() { f.admitted.CompareAndSwap(h, nil) })\n", "",
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
	{"an_epoch_that_no_counting_reaches_is_believed", "fence.go",
		"	if t.Epoch >= maxEpoch {\n", "	if t.Epoch == 1 && maxEpoch == 1 {\n",
		"TestFenceFile/a_file_that_no_fence_has_written_admits_nothing_and_stays"},
	{"a_term_may_have_spaces", "fence.go",
		"t.Term[i] <= ' ' || ", "",
		"TestFenceTerms/what_no_term_can_have_is_refused"},
}

// TestFenceTeeth compiles the package with one fault, and has the test that is named find it.
func TestFenceTeeth(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package once for each mutant; left out in -short")
	}
	for _, m := range fenceMutants {
		t.Run(m.name, func(t *testing.T) {
			dir := t.TempDir()
			source, err := os.ReadFile(m.file)
			check(t, err)
			if n := bytes.Count(source, []byte(m.old)); n != 1 {
				t.Fatalf("%s holds what this mutant replaces %d times, and not once: adapt it\n%s", m.file, n, m.old)
			}
			mutated := filepath.Join(dir, m.file)
			check(t, os.WriteFile(mutated, bytes.Replace(source, []byte(m.old), []byte(m.new), 1), 0o600))

			original, err := filepath.Abs(m.file)
			check(t, err)
			overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
			check(t, err)
			list := filepath.Join(dir, "overlay.json")
			check(t, os.WriteFile(list, overlay, 0o600))

			binary := filepath.Join(dir, "regent.test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", binary, "-overlay", list, ".")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("compile: %v\n%s", err, out)
			}

			only := "^" + strings.ReplaceAll(m.caught, "/", "$/^") + "$"
			out, err := exec.CommandContext(t.Context(), binary, "-test.run", only).CombinedOutput()
			if err == nil || !bytes.Contains(out, []byte("--- FAIL: "+m.caught)) {
				t.Errorf("%s does not see it: %v\n%s", m.caught, err, out)
			}
		})
	}
}
