package reaper

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/reaper/internal/redistest"
	"golang.org/x/sys/unix"
)

// within is how long a test waits for anything that does not have to wait for a lease.
const within = 90 * time.Second

// needsProcesses skips a test that is about processes, and takes long or needs a server, in 'make check'.
func needsProcesses(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("real processes and stores: 'make test' runs it")
	}
}

// node is a member process, and what it and its reaper have reported.
type node struct {
	t     testing.TB
	name  string
	cmd   *exec.Cmd
	in    io.Writer
	said  chan report
	kept  []report
	logs  chan map[string]any // of the reaper
	quiet chan struct{}       // closed when neither the member nor its reaper lives
	died  chan time.Duration  // receives when the member is gone
	open  bool                // its reaper has said that the store is open
}

// short is a lease that expires within a test. The takeover delay applies only to a leader that is silent and not
// proved dead. So the companion decides, even on a machine that gives it no time to kill.
func short(c regent.Config) regent.Config {
	c.LeaseDuration = 8 * time.Second // a busy machine may give a process no time for seconds
	c.StopTimeout = time.Second
	c.TakeoverDelay = 10 * time.Second
	c.RenewInterval = 500 * time.Millisecond
	c.HeartbeatInterval = 500 * time.Millisecond
	c.ElectionInterval = 500 * time.Millisecond
	return c
}

// long is a lease that does not expire within a test.
func long(c regent.Config) regent.Config {
	c.LeaseDuration = 10 * time.Minute
	return c
}

// profiles are both kinds of heartbeat.
func profiles(t *testing.T, f func(t *testing.T, c regent.Config)) {
	for name, c := range map[string]regent.Config{"own_lease": regent.Lock(), "by_heartbeat": regent.Cluster()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, c)
		})
	}
}

// group is a few members on one store.
type group struct {
	testing.TB
	store string
	cfg   regent.Config
}

func newGroup(t testing.TB, cfg regent.Config) group { return group{t, newSQLite(t), cfg} }

// newSQLite returns the address of a new store. Its password means nothing to SQLite.
func newSQLite(t testing.TB) string {
	return "sqlite:" + filepath.Join(t.TempDir(), "regent.db") + "?password=secret"
}

// stores are the stores on which the companion is tested, each new and with a password in its address.
func stores() map[string]func(testing.TB) string {
	return map[string]func(testing.TB) string{"sqlite": newSQLite, "redis": redistest.Start}
}

func (g group) start(name, shell string) *node {
	g.Helper()
	arg, err := json.Marshal(setup{Store: g.store, Name: name, Config: g.cfg, Shell: shell})
	if err != nil {
		g.Fatal(err)
	}

	n := &node{
		t:     g.TB,
		name:  name,
		cmd:   exec.Command("/proc/self/exe", "member", string(arg)),
		said:  make(chan report, 10_000),
		logs:  make(chan map[string]any, 1000),
		quiet: make(chan struct{}),
		died:  make(chan time.Duration, 1),
	}

	in, err1 := n.cmd.StdinPipe()
	out, err2 := n.cmd.StdoutPipe()
	logs, stderr, err3 := os.Pipe()
	if err1 != nil || err2 != nil || err3 != nil {
		g.Fatal(err1, err2, err3)
	}

	n.in, n.cmd.Stderr = in, stderr
	if err := n.cmd.Start(); err != nil {
		g.Fatal(err)
	}

	stderr.Close()
	go n.read(out)
	go n.readLogs(logs)
	go n.watch()
	g.Cleanup(func() {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
		<-n.quiet
	})

	return n
}

func (n *node) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var r report
		if pid, err := strconv.Atoi(lines.Text()); err == nil { // of the shell
			r = report{Kind: "pid", PID: pid}
		} else if json.Unmarshal(lines.Bytes(), &r) != nil {
			r = report{Kind: "text", Text: lines.Text()}
		}
		n.said <- r
	}
}

func (n *node) readLogs(logs *os.File) {
	defer close(n.quiet)
	defer logs.Close()

	for lines := bufio.NewScanner(logs); lines.Scan(); {
		l := map[string]any{}
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			l["msg"] = lines.Text()
		}
		n.t.Log(n.name, lines.Text())
		n.logs <- l
	}
}

// watch records when the process is gone, as the kernel reports it.
func (n *node) watch() {
	fd, err := unix.PidfdOpen(n.cmd.Process.Pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)

	if poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1) == nil {
		n.died <- boottime()
	}
}

// await waits for a report. Reports that come before it are kept for later calls.
func (n *node) await(limit time.Duration, wanted func(report) bool) report {
	n.t.Helper()
	if i := slices.IndexFunc(n.kept, wanted); i >= 0 {
		r := n.kept[i]
		n.kept = slices.Delete(n.kept, i, i+1)
		return r
	}

	end := time.After(limit)
	for {
		select {
		case r := <-n.said:
			if wanted(r) {
				return r
			}
			n.kept = append(n.kept, r)
		case <-end:
			n.t.Fatalf("%s: nothing of the kind was said in %v, only %+v", n.name, limit, n.kept)
		}
	}
}

// all returns the reports that nobody has waited for.
func (n *node) all() []report {
	for len(n.said) > 0 {
		n.kept = append(n.kept, <-n.said)
	}
	return n.kept
}

func (n *node) says(kind string) report {
	n.t.Helper()
	return n.await(within, func(r report) bool { return r.Kind == kind })
}

// leads waits until it leads.
func (n *node) leads(limit time.Duration) report {
	n.t.Helper()
	return n.await(limit, func(r report) bool { return r.Kind == "leads" })
}

// never checks that something is not reported for a while.
func (n *node) never(kind string, limit time.Duration) {
	n.t.Helper()
	end := time.After(limit)
	for {
		select {
		case r := <-n.said:
			if r.Kind == kind {
				n.t.Fatalf("%s says %+v", n.name, r)
			}
		case <-end:
			return
		}
	}
}

func (n *node) logged(msg string) map[string]any {
	n.t.Helper()
	end := time.After(within)
	for {
		select {
		case l := <-n.logs:
			if l["msg"] == msg {
				return l
			}
		case <-end:
			n.t.Fatalf("%s: its reaper did not log %q", n.name, msg)
		}
	}
}

// standsBy waits until it has seen who leads.
func (n *node) standsBy() { n.t.Helper(); n.says(string(regent.EventLeaderChanged)) }

func (n *node) order(words string) {
	n.t.Helper()
	if _, err := io.WriteString(n.in, words+"\n"); err != nil {
		n.t.Fatal(err)
	}
}

// reaper returns the pid of its reaper, once that has received everything.
func (n *node) reaper() int {
	n.t.Helper()
	n.order("reaper")
	return n.says("reaper").PID
}

func (n *node) kill(sig syscall.Signal) time.Duration {
	n.t.Helper()
	at := boottime()
	if err := n.cmd.Process.Signal(sig); err != nil {
		n.t.Fatal(err)
	}
	return at
}

// gone waits until the process is gone, and returns when that was.
func (n *node) gone() time.Duration {
	n.t.Helper()
	select {
	case at := <-n.died:
		_ = n.cmd.Wait()
		return at
	case <-time.After(within):
		n.t.Fatalf("%s is not gone", n.name)
		return 0
	}
}

// ended waits until neither it nor its reaper lives.
func (n *node) ended() {
	n.t.Helper()
	select {
	case <-n.quiet:
	case <-time.After(within):
		n.t.Fatalf("%s: its reaper is not gone", n.name)
	}
}

// pair starts a leader that is watched, and a standby.
func (g group) pair() (leader, standby *node) {
	g.Helper()
	leader = g.start("a", "")
	leader.leads(within)
	leader.logged("store is open")
	standby = g.start("b", "")
	standby.standsBy()
	return leader, standby
}
