package sqlite

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// holdRole claims a register and waits to be killed: args are path, register, and whether it may be witnessed.
func holdRole(orders *bufio.Scanner, args []string) error {
	s, err := Open(background, args[0], Options{NoWitness: args[2] == "unseen"})
	if err != nil {
		return err
	}

	l, err := s.Get(background, args[1])
	if err != nil && !errors.Is(err, driver.ErrNotFound) {
		return err
	}

	next := held(args[1], "child", l.Nonce+1)
	next.Rev, next.Epoch = l.Rev, l.Epoch+1
	if _, err := s.Swap(background, next); err != nil {
		return err
	}

	if args[2] == "headless" { // leave the other threads alone
		go func() {
			for {
				if b, _ := os.ReadFile("/proc/self/stat"); strings.Contains(string(b), ") Z ") {
					fmt.Println("headless")
					return
				}
				runtime.Gosched()
			}
		}()

		_, _, err := syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
		return err
	}

	fmt.Println("held")
	orders.Scan()
	return nil
}

func TestADeathIsWitnessed(t *testing.T) {
	t.Run("by_who_waits_already", func(t *testing.T) {
		s := fresh(t)
		wake, other := s.Subscribe(t.Context(), driver.Prefix("seat")), s.Subscribe(t.Context(), driver.Prefix("other"))
		var took []time.Duration
		for range 20 {
			c := start(t, nil, "hold", s.path, "seat", "seen")
			c.line(t)
			<-wake // the claim
			l, err := s.Get(t.Context(), "seat")
			if err != nil || s.Gone(t.Context(), l) {
				t.Fatalf("%v: gone while it lives", err)
			}

			began := time.Now()
			if err := c.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}

			<-wake
			took = append(took, time.Since(began))
			if !s.Gone(t.Context(), l) { // though nobody has waited for it: a zombie
				t.Error("the death was notified but is not proved")
			}
		}

		slices.Sort(took)
		t.Logf("from kill to wake: min %v, p50 %v, max %v", took[0], took[10], took[19])
		if len(other) != 0 {
			t.Error("somebody else was woken")
		}
	})

	t.Run("by_who_comes_later", func(t *testing.T) {
		s := fresh(t)
		c := start(t, nil, "hold", s.path, "seat", "seen")
		c.line(t)
		wake := s.Subscribe(t.Context(), driver.Prefix("")) // learns of the holder from the record
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}

		<-wake
		_ = c.cmd.Wait()
		c.done = true
		<-s.Subscribe(t.Context(), driver.Prefix("se")) // dead before anybody asked
	})

	t.Run("not_of_who_does_not_want_it", func(t *testing.T) {
		s := fresh(t)
		c := start(t, nil, "hold", s.path, "seat", "unseen")
		c.line(t)
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		c.done = true
		l, err := s.Get(t.Context(), "seat")
		if err != nil || s.Gone(t.Context(), l) {
			t.Error(err, "gone")
		}
	})

	t.Run("of_who_wrote_the_nonce_not_of_who_edited", func(t *testing.T) {
		s := fresh(t)
		c := start(t, nil, "hold", s.path, "seat", "seen")
		c.line(t)
		l, err := s.Get(t.Context(), "seat")
		if err != nil {
			t.Fatal(err)
		}

		l.Next = "me"
		l = storetest.Swap(t, s, l)
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		c.done = true

		if !s.Gone(t.Context(), l) || !open(t, s.path).Gone(t.Context(), l) {
			t.Error("the editor took the holder's place")
		}

		l.Nonce++
		if l = storetest.Swap(t, s, l); s.Gone(t.Context(), l) {
			t.Error("the new writer is declared dead")
		}

		vacant := storetest.Swap(t, s, driver.Record{Name: l.Name, Rev: l.Rev, Epoch: l.Epoch, Nonce: l.Nonce + 1,
			Duration: l.Duration})
		if s.Gone(t.Context(), vacant) || s.Gone(t.Context(), l) {
			t.Error("a vacant or an outdated record has no witness")
		}
	})
}

func TestADeathIsNotImagined(t *testing.T) {
	t.Run("of_a_process_whose_first_thread_has_ended", func(t *testing.T) {
		s := fresh(t)
		wake := s.Subscribe(t.Context(), driver.Prefix(""))
		c := start(t, nil, "hold", s.path, "seat", "headless")
		c.line(t)
		<-wake
		l, err := s.Get(t.Context(), "seat")
		if err != nil || s.Gone(t.Context(), l) {
			t.Error(err, "gone")
		}

		_ = c.cmd.Process.Kill()
		<-wake
		if !s.Gone(t.Context(), l) {
			t.Error("not gone")
		}
	})

	for fact, command := range map[string]string{
		"from_another_time_namespace":       "unshare --time --boottime 100000 --fork --kill-child",
		"from_another_pid_namespace":        "unshare --pid --fork --kill-child --mount-proc",
		"from_a_proc_of_another_namespace":  "unshare --pid --fork --kill-child",
		"of_a_child_of_the_same_namespaces": "nice -n 0",
	} {
		t.Run(fact, func(t *testing.T) {
			if out, err := exec.Command("sh", "-c", command+" true").CombinedOutput(); err != nil {
				t.Skipf("%s: %v, %s", command, err, out)
			}

			s := fresh(t)
			c := startUnder(t, command, "hold", s.path, "seat", "seen")
			c.line(t)
			l, err := s.Get(t.Context(), "seat")
			if err != nil {
				t.Fatal(err)
			}

			t.Log(s.known["seat"].writer)
			if s.Gone(t.Context(), l) {
				t.Error("gone while it lives")
			}

			wake := s.Subscribe(t.Context(), driver.Prefix("seat"))
			if len(wake) != 0 {
				t.Error("woken as if it were dead")
			}
		})
	}
}

func TestAnotherBootProvesNothing(t *testing.T) {
	s := fresh(t)
	c := start(t, nil, "hold", s.path, "seat", "seen")
	c.line(t)
	c.kill(t)
	c.awaitExit()
	db := raw(t, s.path)

	var writer string
	if err := db.QueryRow(`SELECT writer FROM regent_lease WHERE name = 'seat'`).Scan(&writer); err != nil {
		t.Fatal(err)
	}

	p, ok := parseProcess(writer)
	if !ok || p.boot != s.self.boot {
		t.Fatalf("the record was written by %q", writer)
	}

	// As a machine writes it that has this one's machine-id and namespaces, and was started at another time: this
	// machine before it was restarted, or one that this one was cloned from. In older databases the machine-id follows.
	p.boot = "5a4b3c2d-0000-4000-8000-000000000000"
	machine, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		t.Log(err)
	}

	hash := fmt.Sprintf("%x", sha256.Sum256(append([]byte("regent "), machine...)))[:16]
	for _, writer := range []string{p.String(), p.String() + " machine=" + hash} {
		if _, err := db.Exec(`UPDATE regent_lease SET rev = hex(randomblob(16)), writer = ?`, writer); err != nil {
			t.Fatal(err)
		}

		for _, s := range []*Store{s, open(t, s.path)} {
			l, err := s.Get(t.Context(), "seat")
			if err != nil {
				t.Fatal(err)
			}

			if s.Gone(t.Context(), l) {
				t.Errorf("the process of another boot is declared dead: %s", writer)
			}

			if wake := s.Subscribe(t.Context(), driver.Prefix("seat")); len(wake) != 0 {
				t.Errorf("somebody was woken as if the process of another boot were dead: %s", writer)
			}
		}
	}
}

func TestProvedDead(t *testing.T) {
	me := process{pid: 1, start: 10, pidns: 0xEFFFFFFC, timens: 7, boot: "b"}
	is := func(st procState, start uint64) func(int) (procState, uint64) {
		return func(int) (procState, uint64) { return st, start }
	}

	for _, c := range []struct {
		fact    string
		change  func(p, self *process)
		stateOf func(int) (procState, uint64)
		want    bool
	}{
		{"it_runs", nil, is(running, 20), false},
		{"the_pid_is_another_process", nil, is(running, 21), true},
		{"it_runs_and_hides_its_start", nil, is(running, 0), false},
		{"no_such_pid", nil, is(absent, 0), true},
		{"all_threads_have_ended", nil, is(exited, 0), true},
		{"the_kernel_does_not_say", nil, is(unknown, 0), false},
		{"another_pid_namespace", func(p, _ *process) { p.pidns = 5 }, is(absent, 0), false},
		{"another_time_namespace", func(p, _ *process) { p.timens = 8 }, is(running, 99), false},
		{"another_boot", func(p, _ *process) { p.boot = "a" }, is(absent, 0), false},
		{"another_boot_where_the_pid_is_another_process", func(p, _ *process) { p.boot = "a" }, is(running, 21), false},
		{"no_boot_at_all", func(p, self *process) { p.boot, self.boot = "", "" }, is(absent, 0), false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p, self := me, me
			p.pid, p.start = 2, 20
			if c.change != nil {
				c.change(&p, &self)
			}

			if got := p.provedDead(self, c.stateOf); got != c.want {
				t.Errorf("dead: %v", got)
			}

			for _, written := range []string{p.String(), p.String() + " machine=0123456789abcdef"} {
				if back, ok := parseProcess(written); p.boot != "" && (!ok || back != p) {
					t.Errorf("%q reads as %+v", written, back)
				}
			}
		})
	}

	for _, s := range []string{
		"", "pid=1", "pid=x start=1 pidns=1 timens=1 boot=a", "pid=0 start=1 pidns=1 timens=1 boot=a",
	} {
		if p, ok := parseProcess(s); ok {
			t.Errorf("%q reads as %+v", s, p)
		}
	}
}

func TestThisProcessLives(t *testing.T) {
	me, err := self()
	if err != nil {
		t.Fatal(err)
	}

	t.Log(me)
	if me.dead(me) {
		t.Error("it is dead")
	}

	if st, start := processState(me.pid); st != running || start != me.start {
		t.Errorf("processState: %v, %v, not %v", st, start, me.start)
	}
}
