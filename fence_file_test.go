package regent_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/virtual"
)

// unwritable is the path of a fence's file that can be read and locked, but not replaced: the name
// of a temporary file beside it is too long for the file system. Permissions would not stop root.
func unwritable(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), strings.Repeat("f", 250))
	check(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// holds fails unless the file at path has the content.
func holds(t *testing.T, path, content string) {
	t.Helper()
	if b, err := os.ReadFile(path); string(b) != content || err != nil {
		t.Errorf("the file holds %q, %v; want %q", b, err, content)
	}
}

func TestFenceFile(t *testing.T) {
	t.Run("the_file_is_one_line_with_the_epoch_and_the_term", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "fence")
		f := &regent.Fence{Path: path}
		check(t, f.Admit(epoch(6)))
		holds(t, path, "6\n")
		check(t, f.Admit(of("a", 6)))
		holds(t, path, "6 a\n")
		check(t, f.Learn(of("b", 7)))
		holds(t, path, "7 b\n")
		refused(t, (&regent.Fence{Path: path}).Admit(of("a", 7)), of("a", 7), "b")
	})

	t.Run("a_file_of_the_version_before_is_read_and_the_next_term_binds_it", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "fence")
		check(t, os.WriteFile(path, []byte("41\n"), 0o600))
		f := &regent.Fence{Path: path}
		stale(t, f.Admit(of("a", 40)), 40, 41)
		check(t, f.Admit(epoch(41)))
		check(t, f.Admit(of("a", 41)))
		holds(t, path, "41 a\n")
	})

	t.Run("a_file_that_no_fence_has_written_admits_nothing_and_stays", func(t *testing.T) {
		for _, content := range []string{
			"", "seven", "7 a b", "-1", "18446744073709551615", "4611686018427387904 a", "7 \x01",
			"99999999999999999999",
		} {
			path := filepath.Join(t.TempDir(), "fence")
			check(t, os.WriteFile(path, []byte(content), 0o600))
			f := &regent.Fence{Path: path}
			for what, err := range map[string]error{"admit": f.Admit(epoch(1 << 61)),
				"learn": f.Learn(epoch(1 << 61))} {
				if err == nil || !strings.Contains(err.Error(), path) {
					t.Errorf("%s over %q: %v", what, content, err)
				}
			}
			if h, err := f.Highest(); h != epoch(0) || err == nil {
				t.Errorf("%q is read as %v, %v", content, h, err)
			}

			holds(t, path, content)
		}
	})

	t.Run("what_could_not_be_written_was_not_admitted", func(t *testing.T) {
		path := unwritable(t, "6 a\n")
		f := &regent.Fence{Path: path}
		check(t, f.Admit(of("a", 6)))
		for _, token := range []regent.Token{epoch(7), of("b", 7)} {
			if err := f.Admit(token); err == nil || errors.As(err, new(*regent.StaleError)) {
				t.Fatalf("%v: got %v, want an error of the file", token, err)
			}
			if f.Learn(token) == nil {
				t.Errorf("%v was learned", token)
			}
			if h, err := f.Highest(); h != of("a", 6) || err != nil {
				t.Errorf("the highest is %v, %v", h, err)
			}

			check(t, f.Admit(of("a", 6)))
		}

		holds(t, path, "6 a\n")
	})

	t.Run("a_term_that_could_not_be_written_was_not_bound", func(t *testing.T) {
		path := unwritable(t, "6\n")
		f := &regent.Fence{Path: path}
		check(t, f.Admit(epoch(6)))
		if err := f.Admit(of("a", 6)); err == nil || errors.As(err, new(*regent.StaleError)) {
			t.Fatalf("got %v, want an error of the file", err)
		}
		if h, err := f.Highest(); h != epoch(6) || err != nil {
			t.Errorf("the highest is %v, %v", h, err)
		}

		check(t, f.Admit(epoch(6)))
	})
}

// TestFenceFileOfTwoProcesses has two fences on one path, as an overlapping restart has.
func TestFenceFileOfTwoProcesses(t *testing.T) {
	t.Run("the_one_that_comes_later_does_not_lower_the_file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "fence")
		one, other := &regent.Fence{Path: path}, &regent.Fence{Path: path}
		check(t, one.Admit(epoch(5)))
		check(t, other.Admit(of("b", 7)))
		stale(t, one.Admit(of("a", 6)), 6, 7)
		if one.Refused() != 1 {
			t.Errorf("%d refusals counted", one.Refused())
		}

		refused(t, one.Admit(of("a", 7)), of("a", 7), "b")
		check(t, one.Admit(of("b", 7)))
		holds(t, path, "7 b\n")
	})

	t.Run("the_first_of_two_terms_has_the_epoch_in_both", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "fence")
		one, other := &regent.Fence{Path: path}, &regent.Fence{Path: path}
		check(t, one.Learn(epoch(7)))
		check(t, other.Learn(epoch(7)))
		check(t, one.Admit(of("a", 7)))
		refused(t, other.Admit(of("b", 7)), of("b", 7), "a")
		holds(t, path, "7 a\n")
	})

	t.Run("a_cached_epoch_is_admitted_for_a_second_and_not_longer", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "fence")
			one := &regent.Fence{Path: path, Grace: time.Hour}
			other := &regent.Fence{Path: path}
			check(t, one.Admit(of("a", 6)))
			check(t, other.Admit(of("b", 7)))

			time.Sleep(time.Second - time.Millisecond)
			check(t, one.Admit(of("a", 6))) // as documented
			time.Sleep(time.Millisecond)
			synctest.Wait()
			stale(t, one.Admit(of("a", 6)), 6, 7)
			stale(t, one.AdmitLate(of("a", 6), time.Now(), true), 6, 7) // when 7 was learned is not known here
			check(t, one.Admit(of("b", 7)))
		})
	})

	t.Run("a_file_that_is_removed_does_not_lower_the_fence", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "fence")
			f := &regent.Fence{Path: path}
			check(t, f.Admit(of("a", 6)))
			check(t, os.Remove(path))
			time.Sleep(time.Minute)
			stale(t, f.Admit(of("z", 5)), 5, 6)
			check(t, f.Admit(of("a", 6)))
			check(t, f.Admit(of("b", 7)))
			holds(t, path, "7 b\n")
		})
	})

	t.Run("the_file_never_falls_under_concurrency", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "fence")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				f := &regent.Fence{Path: path}
				for range 40 {
					e := rand.Uint64N(1000) + 1
					if f.Admit(epoch(e)) != nil {
						continue
					}

					b, err := os.ReadFile(path)
					kept, perr := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
					if err != nil || perr != nil || kept < e {
						t.Errorf("%d was admitted, and the file holds %q, %v", e, b, err)
					}
				}
			})
		}

		wg.Wait()
	})
}

func TestUnwritableFence(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	f := &regent.Fence{Path: filepath.Join(dir, "epoch")}
	if err := f.Learn(regent.Token{Epoch: 1}); err == nil || f.Unwritable() == nil {
		t.Errorf("there is no directory: %v, %v", err, f.Unwritable())
	}

	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Learn(regent.Token{Epoch: 2, Term: "x"}); err != nil || f.Unwritable() != nil {
		t.Errorf("there is one: %v, %v", err, f.Unwritable())
	}

	if err := f.Admit(regent.Token{Epoch: 1, Term: "y"}); err == nil || f.Unwritable() != nil {
		t.Errorf("a refused token is no fault of the file: %v, %v", err, f.Unwritable())
	}
}
