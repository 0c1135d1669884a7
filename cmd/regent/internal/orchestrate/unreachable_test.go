package orchestrate_test

import (
	"testing"
	"time"

	"github.com/regentd/regent/internal/virtual"
)

func TestUnreachableWorker(t *testing.T) {
	t.Run("a_slot_of_a_live_worker_that_does_not_answer_runs_elsewhere_after_half_a_minute", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t, everyTwoSeconds(t))
			defer h.close()
			a := h.leader("a", 0)
			time.Sleep(20 * time.Second)
			h.take()

			h.deaf.Store(true) // w1 goes on, and so does its heartbeat
			began := time.Now()
			time.Sleep(2 * time.Minute)
			runs := h.take()
			if most(runs) != 2 {
				t.Errorf("no slot was started again: %v", runs)
			}
			if gap := longest(runs, began); gap < 30*time.Second || gap > 40*time.Second {
				t.Errorf("nothing ran for %v", gap)
			}
			a.stop()
		})
	})
}
