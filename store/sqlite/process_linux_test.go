package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"golang.org/x/sys/unix"
)

// child is this test binary in a role of its own. It writes lines, and reads them as orders.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	done bool
}

const roleVar = "REGENT_SQLITE_TEST_ROLE"

func TestMain(m *testing.M) {
	role := strings.Split(os.Getenv(roleVar), "|")
	if run, ok := roles[role[0]]; ok {
		if err := run(bufio.NewScanner(os.Stdin), role[1:]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// One role needs the thread that the process began with.
func init() {
	if os.Getenv(roleVar) != "" {
		runtime.LockOSThread()
	}
}

func start(t testing.TB, attr *syscall.SysProcAttr, role ...string) *child {
	t.Helper()
	return startAs(t, []string{"/proc/self/exe"}, attr, role...)
}

// startUnder starts a child by another command.
func startUnder(t testing.TB, command string, role ...string) *child {
	t.Helper()
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startAs(t, append(strings.Fields(command), this), nil, role...)
}

func startAs(t testing.TB, command []string, attr *syscall.SysProcAttr, role ...string) *child {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), roleVar+"="+strings.Join(role, "|"))
	cmd.Stderr, cmd.SysProcAttr = os.Stderr, attr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		if !c.done {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
	})
	return c
}

func (c *child) line(t testing.TB) string {
	t.Helper()
	if !c.out.Scan() {
		t.Fatalf("the child is gone: %v", c.out.Err())
	}
	if strings.HasPrefix(c.out.Text(), "error:") {
		t.Fatal(c.out.Text())
	}
	return c.out.Text()
}

func (c *child) wait(t testing.TB) {
	t.Helper()
	c.done = true
	if err := c.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

var roles = map[string]func(orders *bufio.Scanner, args []string) error{
	"count":  countRole,
	"hold":   holdRole,
	"relay":  relayRole,
	"idle":   idleRole,
	"open":   openRole,
	"remote": mountRole,
	"full":   fullRole,
}

// increment adds one to a register, by compare-and-swap alone.
func increment(s *Store, name string) error {
	for {
		l, err := s.Get(background, name)
		if err != nil && !errors.Is(err, regent.ErrNotFound) {
			return err
		}
		l.Name, l.Duration = name, time.Second
		n, _ := strconv.Atoi(string(l.Data))
		l.Data = strconv.AppendInt(nil, int64(n)+1, 10)
		l.Nonce++
		if _, err = s.Swap(background, l); !errors.Is(err, regent.ErrConflict) {
			return err
		}
	}
}

// countRole increments a register: args are path, register, how often.
func countRole(_ *bufio.Scanner, args []string) error {
	s, err := Open(background, args[0], Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	n, err := strconv.Atoi(args[2])
	for i := 0; i < n && err == nil; i++ {
		err = increment(s, args[1])
		if i == 10 {
			fmt.Println("counting")
		}
	}
	return err
}

func TestFourProcessesCountExactly(t *testing.T) {
	s := fresh(t)
	began := time.Now()
	var all []*child
	for range 4 {
		all = append(all, start(t, nil, "count", s.path, "counter", "1000"))
	}
	for _, c := range all {
		for c.out.Scan() {
			if c.out.Text() != "counting" {
				t.Error(c.out.Text())
			}
		}
		c.wait(t)
	}
	l, err := s.Get(t.Context(), "counter")
	if err != nil || string(l.Data) != "4000" {
		t.Errorf("%s, %v", l.Data, err)
	}
	t.Logf("4 x 1000 increments in %v", time.Since(began))
}

func TestKilledInTheMiddleOfSwaps(t *testing.T) {
	s := fresh(t)
	for range 5 {
		c := start(t, nil, "count", s.path, "counter", "1000000")
		c.line(t)
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.cmd.Wait()
		c.done = true
		before, err := s.Get(t.Context(), "counter")
		if err != nil {
			t.Fatal(err)
		}
		if err := increment(s, "counter"); err != nil {
			t.Fatal(err)
		}
		after, err := s.Get(t.Context(), "counter")
		if err != nil || after.Nonce != before.Nonce+1 || strconv.FormatUint(after.Nonce, 10) != string(after.Data) {
			t.Errorf("%d to %d with %s: %v", before.Nonce, after.Nonce, after.Data, err)
		}
	}
	var verdict string
	if err := raw(t, s.path).QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity: %q, %v", verdict, err)
	}
}

// holdRole claims a register and waits to be killed: args are path, register, and whether it may be witnessed.
func holdRole(orders *bufio.Scanner, args []string) error {
	s, err := Open(background, args[0], Options{NoWitness: args[2] == "unseen"})
	if err != nil {
		return err
	}
	l, err := s.Get(background, args[1])
	if err != nil && !errors.Is(err, regent.ErrNotFound) {
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
		wake, other := s.Wake(t.Context(), "seat"), s.Wake(t.Context(), "other")
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
				t.Error("the death was told but is not proved")
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
		wake := s.Wake(t.Context(), "") // learns of the holder from the record
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-wake
		_ = c.cmd.Wait()
		c.done = true
		<-s.Wake(t.Context(), "se") // dead before anybody asked
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
		l = swap(t, s, l)
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		c.done = true
		if !s.Gone(t.Context(), l) || !open(t, s.path).Gone(t.Context(), l) {
			t.Error("the editor took the holder's place")
		}
		l.Nonce++
		if l = swap(t, s, l); s.Gone(t.Context(), l) {
			t.Error("the new writer is declared dead")
		}
		vacant := swap(t, s, regent.Lease{Name: l.Name, Rev: l.Rev, Epoch: l.Epoch, Nonce: l.Nonce + 1, Duration: l.Duration})
		if s.Gone(t.Context(), vacant) || s.Gone(t.Context(), l) {
			t.Error("a vacant or an outdated record has no witness")
		}
	})
}

func TestADeathIsNotImagined(t *testing.T) {
	t.Run("of_a_process_whose_first_thread_has_ended", func(t *testing.T) {
		s := fresh(t)
		wake := s.Wake(t.Context(), "")
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
			wake := s.Wake(t.Context(), "seat")
			if len(wake) != 0 {
				t.Error("woken as if it were dead")
			}
		})
	}
}

func TestProvedDead(t *testing.T) {
	me := process{pid: 1, start: 10, pidns: initPIDNamespace, timens: 7, boot: "b", machine: "m"}
	is := func(st state, start uint64) func(int) (state, uint64) {
		return func(int) (state, uint64) { return st, start }
	}
	for _, c := range []struct {
		fact   string
		change func(p, self *process)
		look   func(int) (state, uint64)
		want   bool
	}{
		{"it_runs", nil, is(running, 20), false},
		{"the_pid_is_another_process", nil, is(running, 21), true},
		{"it_runs_and_hides_its_start", nil, is(running, 0), false},
		{"no_such_pid", nil, is(absent, 0), true},
		{"all_threads_have_ended", nil, is(exited, 0), true},
		{"the_kernel_does_not_say", nil, is(unknown, 0), false},
		{"another_pid_namespace", func(p, _ *process) { p.pidns = 5 }, is(absent, 0), false},
		{"another_time_namespace", func(p, _ *process) { p.timens = 8 }, is(running, 99), false},
		{"before_a_reboot", func(p, _ *process) { p.boot = "a" }, is(running, 20), true},
		{"another_machine", func(p, _ *process) { p.boot, p.machine = "a", "n" }, is(absent, 0), false},
		{"machines_without_an_id", func(p, self *process) { p.boot, p.machine, self.machine = "a", "-", "-" }, is(absent, 0), false},
		{"containers_after_a_reboot_or_a_move", func(p, self *process) { p.boot, p.pidns, self.pidns = "a", 5, 5 }, is(absent, 0), false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p, self := me, me
			p.pid, p.start = 2, 20
			if c.change != nil {
				c.change(&p, &self)
			}
			if got := p.provedDead(self, c.look); got != c.want {
				t.Errorf("dead: %v", got)
			}
			if back, ok := parseProcess(p.String()); !ok || back != p {
				t.Errorf("%q reads as %+v", p, back)
			}
		})
	}
	for _, s := range []string{"", "pid=1", "pid=x start=1 pidns=1 timens=1 boot=a machine=b", "pid=0 start=1 pidns=1 timens=1 boot=a machine=b"} {
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
	if st, start := look(me.pid); st != running || start != me.start {
		t.Errorf("look: %v, %v, not %v", st, start, me.start)
	}
}

func TestWake(t *testing.T) {
	s := fresh(t)
	a, b := s.Wake(t.Context(), "a/"), s.Wake(t.Context(), "b/")
	other := open(t, s.path)
	l := swap(t, other, held("a/x", "h", 1))
	<-a
	t.Run("renewals_and_other_prefixes_wake_nobody", func(t *testing.T) {
		l.Nonce++
		l = swap(t, other, l)
		swap(t, other, held("b/y", "h", 1))
		<-b // what came before it has been told, too
		if len(a) != 0 {
			t.Error("woken for nothing")
		}
	})
	t.Run("it_survives_the_removal_of_its_file", func(t *testing.T) {
		if err := os.Rename(s.path+wakeSuffix, s.path+".old"); err != nil {
			t.Fatal(err)
		}
		for n, woken := 0, false; !woken; n++ { // the new watch comes some time after
			l.Epoch++
			l.Nonce++
			l = swap(t, other, l)
			select {
			case <-a:
				woken = true
			case <-time.After(10 * time.Millisecond):
			}
			if n > 500 {
				t.Fatal("never woken again")
			}
		}
	})
	t.Run("its_file_has_the_rights_of_the_database", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "regent.db")
		if err := os.WriteFile(path, nil, 0o660); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o660); err != nil {
			t.Fatal(err)
		}
		open(t, path)
		if info, err := os.Stat(path + wakeSuffix); err != nil || info.Mode().Perm() != 0o660 || info.Size() != 0 {
			t.Error(info, err)
		}
	})
}

func TestFileSystems(t *testing.T) {
	for magic, name := range map[uint32]string{
		0x6969: "NFS", 0x517b: "SMB/CIFS", 0xff534d42: "SMB/CIFS", 0xfe534d42: "SMB/CIFS", 0x01021997: "9p",
		0x65735546: "FUSE (sshfs, virtiofs, s3fs, ...)", 0x00c36400: "Ceph", 0x5346414f: "AFS", 0x6b414653: "AFS", 0x0bd00bd0: "Lustre",
		0x01161970: "GFS2", 0x7461636f: "OCFS2", 0x47504653: "GPFS",
		0xef53: "", 0x58465342: "", 0x9123683e: "", 0x01021994: "", 0x794c7630: "", 0x2fc12fc1: "", // ext4, xfs, btrfs, tmpfs, overlay, zfs
	} {
		if got := remote(magic); got != name {
			t.Errorf("%#x is %q, not %q", magic, got, name)
		}
	}
}

// openRole opens and closes a store.
func openRole(_ *bufio.Scanner, args []string) error {
	s, err := Open(background, args[0], Options{})
	if err != nil {
		return err
	}
	fmt.Println("opened")
	return s.Close()
}

// mountRole opens a database that is a mount of its own, as a container sees a single file passed in.
func mountRole(_ *bufio.Scanner, args []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount(args[0], args[1], "", unix.MS_BIND, ""); err != nil {
		return err
	}
	_, err := Open(background, args[1], Options{})
	fmt.Println(err)
	return nil
}

// fullRole writes until the disk is full, and again when there is room.
func fullRole(_ *bufio.Scanner, args []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", args[0], "tmpfs", 0, "size=1m"); err != nil {
		return err
	}
	ballast := filepath.Join(args[0], "ballast")
	if err := os.WriteFile(ballast, make([]byte, 512<<10), 0o644); err != nil {
		return err
	}
	s, err := Open(background, filepath.Join(args[0], "regent.db"), Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	l, last := held("seat", "a", 1), regent.Lease{}
	for err == nil {
		last, l.Nonce, l.Data = l, l.Nonce+1, make([]byte, len(l.Data)+4096)
		l, err = s.Swap(background, l)
	}
	fmt.Println(errors.Is(err, regent.ErrConflict), err)
	out := s.SwapAll(background, []regent.Lease{{Name: "b", Data: make([]byte, 256<<10)}, {Name: "c"}})
	fmt.Println(out[0].Err != nil && out[1].Err != nil && !errors.Is(out[1].Err, regent.ErrConflict), out[1].Err)
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if l, err = s.Get(background, "seat"); err != nil || l.Rev != last.Rev {
		return fmt.Errorf("revision %s after a swap of %s that failed: %w", l.Rev, last.Rev, err)
	}
	l.Nonce++
	_, err = s.Swap(background, l)
	fmt.Println("and then:", err)
	return nil
}

func TestAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small disk")
	}
	c := start(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}, "full", t.TempDir())
	for _, want := range []string{"false ", "true ", "and then: <nil>"} {
		line := c.line(t)
		if t.Log(line); !strings.HasPrefix(line, want) {
			t.Errorf("not %q", want)
		}
	}
	c.wait(t)
}

func TestRefusedPlaces(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	dir, err := os.MkdirTemp("", "regent") // t.TempDir's parent is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, filepath.Join(dir, "regent.db")).Close()
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	for fact, name := range map[string]string{"a_file_of_another": "regent.db", "a_directory_of_another": "new.db"} {
		t.Run(fact, func(t *testing.T) {
			c := start(t, nobody, "open", filepath.Join(dir, name))
			if !c.out.Scan() || !strings.Contains(c.out.Text(), "must be able to write") {
				t.Error(c.out.Text())
			}
			t.Log(c.out.Text())
		})
	}
	t.Run("a_file_mounted_without_its_directory", func(t *testing.T) {
		target := filepath.Join(dir, "target.db")
		if err := os.WriteFile(target, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		c := start(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}, "remote", filepath.Join(dir, "regent.db"), target)
		if !c.out.Scan() || !strings.Contains(c.out.Text(), "mount of its own") {
			t.Error(c.out.Text())
		}
		t.Log(c.out.Text())
	})
}

func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

// relayRole claims the register whenever it is vacant, tells when it was woken and when it had it, and gives it back as told.
func relayRole(orders *bufio.Scanner, args []string) error {
	s, err := Open(background, args[0], Options{})
	if err != nil {
		return err
	}
	wake := s.Wake(background, args[1])
	fmt.Println("ready")
	for {
		<-wake
		woken := monotonic()
		l, err := s.Get(background, args[1])
		if err != nil || !l.Vacant() {
			continue
		}
		next := held(args[1], "child", l.Nonce+1)
		next.Rev, next.Epoch = l.Rev, l.Epoch+1
		if _, err := s.Swap(background, next); err != nil {
			return err
		}
		fmt.Println(woken, monotonic())
	}
}

func TestTakeoverAfterARelease(t *testing.T) {
	s := fresh(t)
	c := start(t, nil, "relay", s.path, "seat")
	c.line(t)
	var wakes, takeovers []time.Duration
	l := swap(t, s, held("seat", "me", 1))
	for range 300 {
		sent := monotonic()
		l = swap(t, s, regent.Lease{Name: l.Name, Rev: l.Rev, Epoch: l.Epoch, Nonce: l.Nonce + 1, Duration: l.Duration})
		released := monotonic()
		var woken, claimed int64
		if _, err := fmt.Sscan(c.line(t), &woken, &claimed); err != nil {
			t.Fatal(err)
		}
		wakes = append(wakes, time.Duration(woken-released))
		takeovers = append(takeovers, time.Duration(claimed-sent))
		got, err := s.Get(t.Context(), "seat")
		if err != nil {
			t.Fatal(err)
		}
		got.Holder, got.Epoch, got.Nonce = regent.Identity{ID: "me", Incarnation: "me"}, got.Epoch+1, got.Nonce+1
		l = swap(t, s, got)
	}
	slices.Sort(wakes)
	slices.Sort(takeovers)
	t.Logf("woken after the release was answered: p50 %v, p99 %v", wakes[150], wakes[297])
	t.Logf("held by another after the release was sent: p50 %v, p99 %v", takeovers[150], takeovers[297])
}

// idleRole subscribes, and tells how much processor time passes while nothing does.
func idleRole(orders *bufio.Scanner, args []string) error {
	s, err := Open(background, args[0], Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	wake := s.Wake(background, "")
	var before, after unix.Rusage
	fmt.Println("ready")
	_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
	orders.Scan()
	_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
	fmt.Println(time.Duration(after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano()), len(wake))
	return nil
}

func TestIdleCost(t *testing.T) {
	s := fresh(t)
	l := swap(t, s, held("seat", "me", 1))
	for _, renewals := range []int{0, 200} {
		c := start(t, nil, "idle", s.path)
		c.line(t)
		tick := time.NewTicker(10 * time.Millisecond)
		for i := range 200 {
			<-tick.C
			if i < renewals {
				l.Nonce++
				l = swap(t, s, l)
			}
		}
		tick.Stop()
		fmt.Fprintln(c.in, "enough")
		line := c.line(t)
		t.Logf("2 s subscribed, %d renewals by another process: %s of processor time and hints", renewals, line)
		if !strings.HasSuffix(line, " 0") {
			t.Error("renewals wake")
		}
		c.wait(t)
	}
}
