package core

import (
	"fmt"
	"testing"
	"time"
)

// swept returns how many of the elections that a member holds are read within a time, and how many reads that takes.
func swept(t *testing.T, cfg Config, elections int, within time.Duration) (read, reads int) {
	t.Helper()
	r := newRig(t, cfg)
	for i := range elections {
		r.step(Campaign{fmt.Sprint("election ", i)})
	}
	r.step(Join{})
	r.run(cfg.LeaseDuration)
	equal(t, "terms", len(every[Begin](r)), elections)

	r.forget()
	r.run(within)
	names := map[string]bool{}
	for _, s := range every[Send](r) {
		if s.Verb == Get {
			names[s.Record.Name] = true
			reads++
		}
	}
	return len(names), reads
}

func TestSweep(t *testing.T) {
	t.Run("many_batches_take_half_a_lease", func(t *testing.T) {
		cfg := clusterConfig()
		cfg.LeaseDuration = time.Minute
		const n = 4*sweepBatch + 1
		read, reads := swept(t, cfg, n, 30*time.Second)
		equal(t, "elections read within half a lease", read, n)
		if reads > n+sweepBatch {
			t.Errorf("%d reads of %d elections", reads, n)
		}
	})

	t.Run("there_is_no_more_than_one_batch_for_each_heartbeat", func(t *testing.T) {
		cfg := clusterConfig() // half a lease is two heartbeat intervals
		const n = 4 * sweepBatch
		_, reads := swept(t, cfg, n, 3*time.Second)
		equal(t, "reads within two heartbeat intervals", reads, 2*sweepBatch)
		read, _ := swept(t, cfg, n, 6*time.Second)
		equal(t, "elections read within four", read, n)
	})
}
