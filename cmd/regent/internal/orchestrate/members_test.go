package orchestrate_test

import (
	"testing"
	"time"

	"github.com/regentd/regent/internal/virtual"
)

func TestWatchMembers(t *testing.T) {
	t.Run("members_are_watched_only_while_there_are_polls", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t)
			defer h.close()
			a := h.leader("a", 0)
			time.Sleep(5 * time.Second)
			if n := h.watches.Load(); n != 0 {
				t.Errorf("%d watches without a poll", n)
			}

			for range 2 {
				if _, err := a.Put(t.Context(), everyTwoSeconds(t), 0); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				if n := h.watches.Load(); n != 1 || len(h.take()) < 3 {
					t.Errorf("%d watches with a poll", n)
				}

				if err := a.Remove(t.Context(), "p", 0); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if n := h.watches.Load(); n != 0 {
					t.Errorf("%d watches after the poll was removed", n)
				}
			}
			a.stop()
		})
	})
}
