// Package etcdtest starts etcd servers for tests: each is a process of its own, which can be killed and frozen.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// ready is how long a member may take to answer after its start.
const ready = 2 * time.Minute

// Lab is a directory with a built server, below which the members of a test have their data.
type Lab struct {
	Dir    string
	server string
}

// New builds the server of module store/etcd/testserver, without the race detector. The caller closes the lab.
func New() (*Lab, error) {
	parent := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		parent = "/dev/shm"
	}
	dir, err := os.MkdirTemp(parent, "regent-etcd")
	if err != nil {
		return nil, err
	}

	l := &Lab{Dir: dir, server: filepath.Join(dir, "etcd")}
	_, file, _, _ := runtime.Caller(0)
	build := exec.Command("go", "build", "-o", l.server, ".")
	build.Dir = filepath.Join(filepath.Dir(file), "..", "..", "store", "etcd", "testserver")
	if out, err := build.CombinedOutput(); err != nil {
		l.Close()
		return nil, fmt.Errorf("build etcd: %w: %s", err, out)
	}
	return l, nil
}

// Close removes everything. The members must have been stopped.
func (l *Lab) Close() { _ = os.RemoveAll(l.Dir) }

// Restore makes the data directory of a stopped single member what a snapshot file holds, as 'etcdutl snapshot restore'
// does.
func (l *Lab) Restore(m *Member, snapshot string) error {
	if err := os.RemoveAll(m.data); err != nil {
		return err
	}
	out, err := exec.Command(l.server, "snapshot", "restore", snapshot, "--data-dir", m.data, "--name", m.name,
		"--initial-cluster", m.name+"="+m.peerURL(), "--initial-advertise-peer-urls", m.peerURL()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("restore a snapshot: %w: %s", err, out)
	}
	return nil
}

// Member is one member of a cluster.
type Member struct {
	Client int // the port for clients
	peer   int
	name   string
	data   string
	log    string
	server string
	args   []string
	joins  string // what it does at a restart without data: begin a cluster (new) or join one (existing)
	secure bool
	cmd    *exec.Cmd
}

// Start starts a cluster of n members below the directory name, and waits until it answers. Arguments are those of
// etcd: --quota-backend-bytes=1000000.
func (l *Lab) Start(name string, n int, args ...string) ([]*Member, error) {
	all := make([]*Member, n)
	var cluster []string
	for i := range all {
		id := fmt.Sprintf("%s-%d", name, i)
		all[i] = &Member{
			Client: FreePort(), peer: FreePort(), name: id, data: filepath.Join(l.Dir, id),
			log: filepath.Join(l.Dir, id+".log"), server: l.server,
			secure: strings.Contains(strings.Join(args, " "), "--cert-file"), joins: "new",
		}
		if n > 1 {
			all[i].joins = "existing"
		}
		cluster = append(cluster, id+"="+all[i].peerURL())
	}

	for _, m := range all {
		m.args = append([]string{"--initial-cluster", strings.Join(cluster, ",")}, args...)
		if err := m.start(); err != nil {
			Stop(all)
			return nil, err
		}
	}
	for _, m := range all {
		if err := m.await(); err != nil {
			Stop(all)
			return nil, err
		}
	}
	return all, nil
}

// Stop kills members.
func Stop(all []*Member) {
	for _, m := range all {
		m.Kill()
	}
}

// FreePort returns a port that no client gets by chance while its server is down.
func FreePort() int {
	for {
		port := 20000 + rand.IntN(12000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
}

// Start starts a member again, and waits until it answers. One of several that has lost its data gets it from the
// others.
func (m *Member) Start() error {
	if err := m.start("--initial-cluster-state", m.joins); err != nil {
		return err
	}
	return m.await()
}

func (m *Member) start(args ...string) error {
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	m.cmd = exec.Command(m.server, append([]string{
		"--name", m.name, "--data-dir", m.data, "--listen-client-urls", m.URL(), "--advertise-client-urls", m.URL(),
		"--listen-peer-urls", m.peerURL(), "--initial-advertise-peer-urls", m.peerURL(), "--log-level", "warn",
		"--unsafe-no-fsync",
	}, append(args, m.args...)...)...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	DieWithUs(m.cmd)
	return m.cmd.Start()
}

// await waits until the member says that it is healthy, which takes a leader.
func (m *Member) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), ready)
	defer cancel()
	for !m.healthy(ctx) {
		if ctx.Err() != nil {
			text, _ := os.ReadFile(m.log)
			return errors.New("etcd does not answer: " + string(text))
		}
		time.Sleep(20 * time.Millisecond) // before it is asked again
	}
	return nil
}

func (m *Member) healthy(ctx context.Context) bool {
	if m.secure { // which this package has no certificate for
		conn, err := net.DialTimeout("tcp", m.Addr(), time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}

	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(short, http.MethodGet, m.URL()+"/health", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// Data returns the directory of the member's data.
func (m *Member) Data() string { return m.data }

// Addr returns host and port for clients.
func (m *Member) Addr() string { return fmt.Sprintf("127.0.0.1:%d", m.Client) }

// URL returns the URL for clients.
func (m *Member) URL() string {
	if m.secure {
		return "https://" + m.Addr()
	}
	return "http://" + m.Addr()
}

func (m *Member) peerURL() string { return fmt.Sprintf("http://127.0.0.1:%d", m.peer) }

// Kill ends the member at once.
func (m *Member) Kill() {
	if m.cmd == nil || m.cmd.Process == nil {
		return
	}
	_ = m.cmd.Process.Kill() // it is not there any more, or dies
	_ = m.cmd.Wait()
	m.cmd = nil
}

// Save copies the files of a member that was killed, and returns a function that brings them back.
func (m *Member) Save() (restore func() error, err error) {
	copied := m.data + ".saved"
	if err := copyDir(copied, m.data); err != nil {
		return nil, err
	}
	return func() error { return copyDir(m.data, copied) }, nil
}

// copyDir makes a directory what another one is.
func copyDir(to, from string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}

// Address returns the store's address of members, with more parameters: /prefix or ?a=b.
func Address(all []*Member, rest string) string {
	hosts := make([]string, len(all))
	for i, m := range all {
		hosts[i] = m.Addr()
	}
	return "etcd://" + strings.Join(hosts, ",") + rest
}
