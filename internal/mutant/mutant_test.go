package mutant_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regentd/regent/internal/mutant"
)

func TestOverlay(t *testing.T) {
	root := t.TempDir()
	source := "one\ntwo\ntwo and a half\nthree\n"
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}

	t.Run("edits_of_a_file_follow_each_other_and_the_file_stays_as_it_is", func(t *testing.T) {
		list, err := mutant.Overlay(root, t.TempDir(), mutant.Edit{"a.txt", "one", "1"}, mutant.Edit{"a.txt",
			"1\ntwo\n", "2\n"})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		var overlay struct{ Replace map[string]string }
		if err := json.Unmarshal(text, &overlay); err != nil {
			t.Fatal(err)
		}
		edited, err := os.ReadFile(overlay.Replace[filepath.Join(root, "a.txt")])
		if want := "2\ntwo and a half\nthree\n"; err != nil || string(edited) != want {
			t.Errorf("%q, %v; want %q", edited, err, want)
		}
		if kept, _ := os.ReadFile(filepath.Join(root, "a.txt")); string(kept) != source {
			t.Errorf("the original is %q", kept)
		}
	})

	t.Run("a_text_that_does_not_stand_exactly_once_is_refused", func(t *testing.T) {
		for _, old := range []string{"two", "four"} {
			err := mutant.Check(root, mutant.Edit{"a.txt", old, ""})
			if err == nil || !strings.Contains(err.Error(), "a.txt") || !strings.Contains(err.Error(), old) {
				t.Errorf("%q: %v", old, err)
			}
		}
		if err := mutant.Check(root, mutant.Edit{"b.txt", "x", ""}); err == nil {
			t.Error("a file that is not there was edited")
		}
	})
}
