package main

import (
	"syscall"
	"testing"
	"time"
)

// TestRollingRestart stops and kills nodes of a cluster that runs polls: each slot runs once all the same.
func TestRollingRestart(t *testing.T) {
	sqlite := func(t *testing.T) string { return sqliteStore(t) }

	// follows waits for the next leader. It must lead within 5 s, unless the disk or the machine
	// stalled meanwhile.
	follows := func(c *cluster, gone *daemon, since time.Time) *daemon {
		c.t.Helper()
		delay := watchMachine()
		next := c.leader(gone)
		took := time.Since(since)
		c.t.Logf("%s stopped, %s leads after %v", gone.name, next.name, took.Round(time.Millisecond))

		if late := delay(); took > 5*time.Second && late < time.Second {
			c.excuse(since, "%s leads %v after %s was stopped", next.name, took, gone.name)
		}
		return next
	}

	t.Run("C08_after_a_graceful_stop_a_standby_leads_within_5s_and_no_slot_is_lost_or_doubled", func(t *testing.T) {
		t.Parallel()
		c := fullCluster(t, sqlite(t))
		a := c.leader()
		a.signal(syscall.SIGTERM)
		follows(c, a, time.Now())
		<-a.gone

		if code := a.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s: exit code %d", a.name, code)
		}
		delete(c.nodes, a.name)
		c.goesOn(2)
		c.goesOn(2)

		if r := c.check(); r.Cut != 0 && !c.hurried() {
			t.Errorf("%d runs were cut short", r.Cut)
		}
	})

	t.Run("C20_over_a_rolling_restart_of_all_each_slot_runs_once", func(t *testing.T) {
		t.Parallel()
		c := fullCluster(t, sqlite(t))
		for _, name := range []string{"a", "b", "c", "w1", "w2"} {
			d := c.nodes[name]
			d.signal(syscall.SIGTERM)
			follows(c, d, time.Now())
			<-d.gone

			if code := d.cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("%s: exit code %d", name, code)
			}
			c.again(name).until("/readyz", 200)
			c.goesOn(1)
		}

		if r := c.check(); r.Cut != 0 && !c.hurried() {
			t.Errorf("%d runs were cut short", r.Cut)
		}
	})

	t.Run("C07_over_five_leaders_killed_in_a_row_each_slot_runs_once", func(t *testing.T) {
		t.Parallel()
		c := fullCluster(t, sqlite(t))
		for n := range uint64(5) {
			d := c.leader()
			d.signal(syscall.SIGKILL)
			follows(c, d, time.Now())
			<-d.gone
			c.again(d.name).until("/readyz", 200)
			c.goesOn(n + 2)
		}

		c.check()
	})
}
