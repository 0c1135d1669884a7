package reaper

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
)

// TestTrack has the leader run a shell with all kinds of children.
func TestTrack(t *testing.T) {
	needsProcesses(t)
	const shell = `echo $$; sleep 1000 & echo $!; sh -c 'trap "" TERM; sleep 1001 & wait' & echo $!
		timeout 1000 sleep 1002 & echo $!; setsid sleep 1003 & echo $!; wait; wait`
	const count = 5
	play := func(t *testing.T, cfg regent.Config, sig syscall.Signal, limit time.Duration) {
		t.Parallel()
		g := newGroup(t, cfg)
		a := g.start("a", shell)
		var pids []int
		for range count {
			pids = append(pids, a.says("pid").PID)
		}

		a.logged("store is open")
		b := g.start("b", "")
		b.standsBy()
		for _, pid := range pids {
			if !lives(pid) {
				t.Errorf("%d does not run", pid)
			}
			b.order("check " + strconv.Itoa(pid))
			b.says("checks")
		}

		a.reaper()
		at := a.kill(sig)
		led := b.leads(limit)
		t.Logf("took %v", led.At-at)
		if len(led.Alive) > 0 {
			t.Errorf("%v of %v live though another leads", led.Alive, pids)
		}

		a.gone()
	}

	t.Run("everything_that_a_killed_leader_ran_is_gone_before_another_leads", func(t *testing.T) {
		play(t, long(regent.Lock()), syscall.SIGKILL, early)
	})

	t.Run("everything_that_a_frozen_leader_ran_is_gone_before_another_leads", func(t *testing.T) {
		play(t, short(regent.Lock()), syscall.SIGSTOP, within)
	})
}
