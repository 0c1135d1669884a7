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

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
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
		if err != nil && !errors.Is(err, driver.ErrNotFound) {
			return err
		}

		l.Name, l.Duration = name, time.Second
		n, _ := strconv.Atoi(string(l.Data))
		l.Data = strconv.AppendInt(nil, int64(n)+1, 10)
		l.Nonce++
		if _, err = s.Swap(background, l); !errors.Is(err, driver.ErrConflict) {
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

	var integrity string
	if err := raw(t, s.path).QueryRow("PRAGMA integrity_check").Scan(&integrity); err != nil || integrity != "ok" {
		t.Errorf("integrity: %q, %v", integrity, err)
	}
}

func TestWake(t *testing.T) {
	s := fresh(t)
	a, b := s.Subscribe(t.Context(), driver.Prefix("a/")), s.Subscribe(t.Context(), driver.Prefix("b/"))
	other := open(t, s.path)
	l := storetest.Swap(t, other, held("a/x", "h", 1))
	<-a

	t.Run("renewals_and_other_prefixes_wake_nobody", func(t *testing.T) {
		l.Nonce++
		l = storetest.Swap(t, other, l)
		storetest.Swap(t, other, held("b/y", "h", 1))
		<-b // what came before it has been notified, too
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
			l = storetest.Swap(t, other, l)
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

func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

// relayRole claims the register whenever it is vacant, reports when it was notified and when it had the register, and
// releases it as ordered.
func relayRole(orders *bufio.Scanner, args []string) error {
	s, err := Open(background, args[0], Options{})
	if err != nil {
		return err
	}

	wake := s.Subscribe(background, driver.Prefix(args[1]))
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
	l := storetest.Swap(t, s, held("seat", "me", 1))

	for range 300 {
		sent := monotonic()
		l = storetest.Swap(t, s, driver.Record{Name: l.Name, Rev: l.Rev, Epoch: l.Epoch, Nonce: l.Nonce + 1,
			Duration: l.Duration})
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

		got.Holder = driver.Identity{ID: "me", Incarnation: "me"}
		got.Epoch = got.Epoch + 1
		got.Nonce = got.Nonce + 1
		l = storetest.Swap(t, s, got)
	}

	slices.Sort(wakes)
	slices.Sort(takeovers)
	t.Logf("woken after the release was answered: p50 %v, p99 %v", wakes[150], wakes[297])
	t.Logf("held by another after the release was sent: p50 %v, p99 %v", takeovers[150], takeovers[297])
}

// idleRole subscribes, and reports how much processor time it uses while nothing happens.
func idleRole(orders *bufio.Scanner, args []string) error {
	s, err := Open(background, args[0], Options{})
	if err != nil {
		return err
	}
	defer s.Close()

	wake := s.Subscribe(background, driver.Prefix(""))
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
	l := storetest.Swap(t, s, held("seat", "me", 1))
	for _, renewals := range []int{0, 200} {
		c := start(t, nil, "idle", s.path)
		c.line(t)
		tick := time.NewTicker(10 * time.Millisecond)
		for i := range 200 {
			<-tick.C
			if i < renewals {
				l.Nonce++
				l = storetest.Swap(t, s, l)
			}
		}

		tick.Stop()
		fmt.Fprintln(c.in, "enough")
		line := c.line(t)
		t.Logf("2 s subscribed, %d renewals by another process: %s of processor time and notices", renewals, line)
		if !strings.HasSuffix(line, " 0") {
			t.Error("renewals wake")
		}

		c.wait(t)
	}
}
