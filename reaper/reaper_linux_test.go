package reaper

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"golang.org/x/sys/unix"
)

// early is well below a long lease, and allows for a busy machine.
const early = 90 * time.Second

func TestDeath(t *testing.T) {
	needsProcesses(t)

	t.Run("C07_a_killed_leader_is_replaced_long_before_its_lease_expires", func(t *testing.T) {
		for name, newStore := range stores() {
			t.Run(name, func(t *testing.T) {
				profiles(t, func(t *testing.T, c regent.Config) {
					g := group{t, newStore(t), long(c)}
					a, b := g.pair()
					at := a.kill(syscall.SIGKILL)
					took := b.leads(early).At - at
					t.Logf("took %v", took)
					a.logged("process is gone: released what it held")
					a.ended()
				})
			})
		}
	})

	t.Run("a_reaper_that_is_killed_is_replaced_and_its_successor_knows_everything", func(t *testing.T) {
		t.Parallel()
		g := newGroup(t, long(regent.Lock()))
		a, b := g.pair()
		first := a.reaper()
		if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}

		a.logged("store is open")
		if second := a.reaper(); second == first || second == 0 {
			t.Fatalf("pid %d, then %d", first, second)
		}

		at := a.kill(syscall.SIGKILL)
		t.Logf("took %v", b.leads(early).At-at)
	})

	t.Run("if_both_are_killed_the_lease_runs_out", func(t *testing.T) {
		profiles(t, func(t *testing.T, c regent.Config) {
			g := newGroup(t, short(c))
			a, b := g.pair()
			reaper := a.reaper()
			a.kill(syscall.SIGSTOP) // so that it starts no other
			if err := syscall.Kill(reaper, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}

			at := a.kill(syscall.SIGKILL)
			led := b.leads(within).At
			var renewed time.Duration
			for _, r := range a.all() {
				if r.Kind == "lifeline" {
					renewed = r.At
				}
			}

			t.Logf("took %v, %v after the last renewal", led-at, led-renewed)
			// The companion got it a little after the store did.
			if led-renewed < g.cfg.LeaseDuration-200*time.Millisecond {
				t.Errorf("took %v at a lease of %v", led-renewed, g.cfg.LeaseDuration)
			}
		})
	})

	t.Run("a_reaper_whose_store_is_gone_tries_until_the_lease_has_expired_and_no_longer", func(t *testing.T) {
		profiles(t, func(t *testing.T, c regent.Config) {
			g := newGroup(t, short(c))
			a := g.start("a", "")
			a.leads(within)
			a.reaper()
			a.kill(syscall.SIGSTOP)
			dir := filepath.Dir(strings.TrimPrefix(g.store, "sqlite:"))
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}

			a.kill(syscall.SIGKILL)
			a.logged("process is gone, but what it held could not be released")
			select {
			case <-a.quiet:
			case <-time.After(within):
				t.Fatal("the reaper does not end")
			}

			var renewed time.Duration
			for _, r := range a.all() {
				if r.Kind == "lifeline" {
					renewed = r.At
				}
			}
			took := boottime() - renewed
			t.Logf("the reaper ended %v after the last renewal", took)
			if took < g.cfg.LeaseDuration*98/100 { // a term ends by 2 in 1000 early, and the reaper counts from then
				t.Errorf("it has given up %v after the last renewal, with a lease of %v", took, g.cfg.LeaseDuration)
			}
		})
	})

	t.Run("signals_do_not_end_a_reaper", func(t *testing.T) {
		t.Parallel()
		g := newGroup(t, long(regent.Lock()))
		a, b := g.pair()
		reaper := a.reaper()
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
			if err := syscall.Kill(reaper, sig); err != nil {
				t.Fatal(err)
			}
		}

		if sid, err := unix.Getsid(reaper); err != nil || sid != reaper {
			t.Errorf("pid %d is in session %d, %v", reaper, sid, err)
		}

		at := a.kill(syscall.SIGKILL)
		t.Logf("took %v", b.leads(early).At-at)
		if by := a.logged("process is gone: released what it held")["pid"]; by != float64(reaper) {
			t.Errorf("%v did it, not %d", by, reaper)
		}
	})

	t.Run("a_closed_pipe_proves_nothing_and_the_process_is_still_watched", func(t *testing.T) {
		t.Parallel()
		g := newGroup(t, long(regent.Lock()))
		a, b := g.pair()
		a.reaper()
		a.order("deafen")
		a.says("deaf")
		a.logged("pipe is closed: watching on")
		b.never("leads", 300*time.Millisecond)
		at := a.kill(syscall.SIGKILL)
		t.Logf("took %v", b.leads(early).At-at)
	})
}

// replaced freezes a leader, and returns what is wrong with when it was killed and replaced.
func replaced(t *testing.T, cfg regent.Config) (wrong string) {
	t.Helper()
	g := newGroup(t, cfg)
	a, b := g.pair()
	line := lifelines(a, 4) // it has renewed: silence is measured from the last one
	a.reaper()              // which has received it
	stopped := a.kill(syscall.SIGSTOP)
	died := a.gone()

	led := b.leads(within)
	for _, r := range a.all() {
		if r.Kind == "lifeline" {
			line = r
		}
	}

	t.Logf("stopped, its deadline %v later, dead %v after that, replaced %v after that",
		line.Until-stopped, died-line.Until, led.At-died)
	switch late := died - line.Until; {
	case late < g.cfg.StopTimeout-g.cfg.LeaseDuration/200:
		t.Errorf("killed %v after its deadline: it has %v to stop", late, g.cfg.StopTimeout)
	case late > g.cfg.StopTimeout+g.cfg.TakeoverDelay:
		return fmt.Sprintf("killed %v after its deadline", late)
	case led.At <= died:
		return fmt.Sprintf("replaced %v before its death", died-led.At)
	}
	return ""
}

func TestSilence(t *testing.T) {
	needsProcesses(t)

	t.Run("a_frozen_leader_is_killed_after_its_deadline_and_before_anybody_else_leads", func(t *testing.T) {
		profiles(t, func(t *testing.T, c regent.Config) {
			// This process hears of the death late on a busy machine, but not every time.
			why := "never"
			for range 4 {
				if why = replaced(t, short(c)); why == "" {
					return
				}
				t.Log(why)
			}
			t.Error(why)
		})
	})

	t.Run("a_frozen_leader_is_killed_by_the_successor_of_its_reaper", func(t *testing.T) {
		profiles(t, func(t *testing.T, c regent.Config) {
			g := newGroup(t, short(c))
			a, b := g.pair()
			sendSignal(t, a.reaper(), syscall.SIGKILL)
			a.logged("store is open")
			a.kill(syscall.SIGSTOP)
			a.gone()
			b.leads(within)
			a.logged("process is silent past its deadline: killing it")
		})
	})

	t.Run("a_frozen_standby_is_not_killed_and_goes_on", func(t *testing.T) {
		t.Parallel()
		g := newGroup(t, short(regent.Cluster()))
		_, b := g.pair()
		line := lifelines(b, 1)
		b.reaper()
		b.kill(syscall.SIGSTOP)

		select {
		case <-b.died:
			t.Fatal("killed")
		case <-time.After(line.Until + g.cfg.StopTimeout + g.cfg.LeaseDuration - boottime()):
		}

		awake := b.kill(syscall.SIGCONT)
		b.await(within, func(r report) bool { return r.Kind == "lifeline" && r.At > awake })
	})

	t.Run("a_standby_that_dies_is_freed_at_once", func(t *testing.T) {
		t.Parallel()
		g := newGroup(t, long(regent.Cluster()))
		_, b := g.pair()
		lifelines(b, 1)
		b.reaper()
		b.kill(syscall.SIGKILL) // only now does its reaper open the store: it held nothing

		if l := b.logged("process is gone: released what it held"); l["registers"] != 1.0 {
			t.Error(l)
		}

		if all := g.records(); slices.ContainsFunc(all, func(r string) bool { return strings.Contains(r, " b/") }) {
			t.Error(all)
		}
	})
}

// startWithStoppedReaper starts a leader, and stops its reaper.
func startWithStoppedReaper(t *testing.T, g group) (leader *node, reaper int) {
	t.Helper()
	leader = g.start("a", "")
	leader.leads(within)
	leader.logged("store is open") // a reaper that is stopped while it opens SQLite may hold its lock
	reaper = leader.reaper()
	sendSignal(t, reaper, syscall.SIGSTOP)
	return leader, reaper
}

func TestNotKilled(t *testing.T) {
	needsProcesses(t)

	t.Run("a_leader_is_not_killed_by_a_reaper_that_was_stopped", func(t *testing.T) {
		t.Parallel()
		g := newGroup(t, short(regent.Lock()))
		a, reaper := startWithStoppedReaper(t, g)

		renewsPastItsDeadline(a, g.cfg)
		sendSignal(t, reaper, syscall.SIGCONT)
		renewsPastItsDeadline(a, g.cfg)
		a.kill(syscall.SIGKILL)
		a.logged("process is gone: released what it held")
	})

	t.Run("a_leader_that_waits_for_its_stopped_reaper_to_read_is_not_killed", func(t *testing.T) {
		t.Parallel()
		g := newGroup(t, short(regent.Lock()))
		a, reaper := startWithStoppedReaper(t, g)

		a.order("flood")
		a.says("flood")
		renewsPastItsDeadline(a, g.cfg)

		// The leader is slow to go on writing: all that the reaper finds in the pipe is old.
		a.kill(syscall.SIGSTOP)
		sendSignal(t, reaper, syscall.SIGCONT)
		drained(t, reaper)
		a.kill(syscall.SIGCONT)

		a.order("ebb")
		a.says("ebb")
		if now := a.reaper(); now != reaper {
			t.Errorf("pid %d, then %d", reaper, now)
		}

		renewsPastItsDeadline(a, g.cfg)
		a.kill(syscall.SIGKILL)
		a.logged("process is gone: released what it held")
	})

	t.Run("a_leader_that_renews_is_left_alone", func(t *testing.T) {
		t.Parallel()
		g := newGroup(t, short(regent.Lock()))
		a := g.start("a", "")
		a.leads(within)
		renewsPastItsDeadline(a, g.cfg)
		select {
		case <-a.died:
			t.Error("killed")
		default:
		}
	})

	t.Run("the_reaper_of_a_leader_that_stepped_down_writes_nothing", func(t *testing.T) {
		profiles(t, func(t *testing.T, c regent.Config) {
			g := newGroup(t, long(c))
			a := g.start("a", "")
			a.leads(within)
			a.logged("store is open")
			a.order("quit")
			a.says("out")

			before := g.records()
			a.kill(syscall.SIGKILL)
			a.gone()
			a.ended()
			if after := g.records(); !slices.Equal(before, after) {
				t.Errorf("before %v\nafter %v", before, after)
			}
		})
	})

	t.Run("a_reaper_on_which_nothing_depends_ends_when_it_is_closed", func(t *testing.T) {
		t.Parallel()
		g := newGroup(t, long(regent.Lock()))
		a := g.start("a", "")
		lifelines(a, 1)
		reaper := a.reaper()
		a.order("close") // too early: the process leads

		a.says("closed")
		if !lives(reaper) {
			t.Error("it left a leader alone")
		}

		a.order("quit")
		a.says("out")
		a.order("close")
		a.says("closed")
		if lives(reaper) {
			t.Error("it lives on")
		}
	})
}

// renewsPastItsDeadline waits until a leader has renewed for so long that a reaper without these messages would have
// killed it.
func renewsPastItsDeadline(n *node, cfg regent.Config) {
	n.t.Helper()
	line := lifelines(n, 1)
	for last := line; last.At < line.Until+cfg.StopTimeout; {
		last = lifelines(n, 1)
	}
}

// sendSignal sends a signal to a companion. A companion that it stops is resumed when the test ends, so that it can
// end.
func sendSignal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		_ = unix.PidfdSendSignal(fd, syscall.SIGCONT, nil, 0)
		unix.Close(fd)
	})

	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		t.Fatal(err)
	}
}

// drained waits until a process has read all of the pipe that is its standard input.
func drained(t *testing.T, pid int) {
	t.Helper()
	pipe, err := os.OpenFile("/proc/"+strconv.Itoa(pid)+"/fd/0", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()

	for limit := time.Now().Add(within); time.Now().Before(limit); {
		n, err := unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}

	t.Fatalf("%d does not read", pid)
}

func lifelines(n *node, count int) (last report) {
	n.t.Helper()
	for range count {
		last = n.says("lifeline")
	}
	return last
}

// records returns name, revision and holder of all registers.
func (g group) records() []string {
	g.Helper()
	store, err := open(context.Background(), g.store)
	if err != nil {
		g.Fatal(err)
	}
	defer store.Close()

	var all []string
	for l, err := range store.List(context.Background(), "") {
		if err != nil {
			g.Fatal(err)
		}
		all = append(all, l.Name+" "+l.Rev+" "+l.Holder.String())
	}

	slices.Sort(all)
	return all
}
