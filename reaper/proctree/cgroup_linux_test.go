package proctree

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestCgroups(t *testing.T) {
	if err := Confinable(); err != nil {
		t.Skip("no cgroup can be made here:", err)
	}

	t.Run("nothing_is_left_of_one_that_was_removed_with_those_below_it", func(t *testing.T) {
		b, err := New().Confined()
		if err != nil {
			t.Fatal(err)
		}

		if err := os.Mkdir(filepath.Join(b.Cgroup, "below"), 0o755); err != nil {
			t.Fatal(err)
		}

		b.Remove()
		if _, err := os.Stat(b.Cgroup); !os.IsNotExist(err) {
			t.Error(err)
		}

		if pids, alive := b.confined(); len(pids) > 0 || alive {
			t.Errorf("%v live in a cgroup that is gone", pids)
		}
	})

	t.Run("old_ones_that_nobody_removed_go_when_another_is_made", func(t *testing.T) {
		old, err1 := New().Confined()
		young, err2 := New().Confined()
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		defer young.Remove()

		then := time.Now().Add(-2 * oldAfter)
		if err := os.Chtimes(old.Cgroup, then, then); err != nil {
			t.Skip("the age of a cgroup cannot be set here:", err)
		}

		if err := Confinable(); err != nil {
			t.Fatal(err)
		}

		if _, err := os.Stat(old.Cgroup); !os.IsNotExist(err) {
			t.Errorf("the old one: %v", err)
		}

		if _, err := os.Stat(young.Cgroup); err != nil {
			t.Errorf("the young one: %v", err)
		}
	})
}
