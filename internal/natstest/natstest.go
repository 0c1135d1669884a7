// Package natstest starts NATS servers for tests: each is a process of its own, which can be killed and frozen.
package natstest

import (
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

const (
	startTimeout = 45 * time.Second // how long a server may take to be ready, before it is started again
	startTries   = 4
)

// Lab is a directory with a built server, below which the servers of a test have their files.
type Lab struct {
	Dir     string
	command string
}

// New builds the server of module store/nats/testserver, without the race detector. The caller closes the lab.
func New() (*Lab, error) {
	dir, err := os.MkdirTemp("", "regent-nats")
	if err != nil {
		return nil, err
	}

	lab := &Lab{Dir: dir, command: filepath.Join(dir, "nats-server")}
	_, here, _, _ := runtime.Caller(0)
	build := exec.Command("go", "build", "-o", lab.command, ".")
	build.Dir = filepath.Join(filepath.Dir(here), "../../store/nats/testserver")
	if text, err := build.CombinedOutput(); err != nil {
		lab.Close()
		return nil, fmt.Errorf("build nats-server: %w: %s", err, text)
	}
	return lab, nil
}

// Close removes everything. The servers must have been stopped.
func (l *Lab) Close() { _ = os.RemoveAll(l.Dir) }

// Keys writes keys of users and what servers must know of them to a directory: see testserver/keys.go.
func (l *Lab) Keys(dir string) error {
	if text, err := exec.Command(l.command, "keys", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("write keys: %w: %s", err, text)
	}
	return nil
}

// Server is one server of a cluster, or the only one.
type Server struct {
	lab     *Lab
	name    string
	client  int // ports
	routes  int
	monitor int
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
}

// Start starts n servers as a cluster, or a single one, and waits until they are ready. More is added to their
// configuration. Servers that do not find each other in time are started again, on other ports.
func (l *Lab) Start(name string, n int, more string) (all []*Server, err error) {
	for try := range startTries {
		all, err = l.start(fmt.Sprintf("%s-%d", name, try), n, more)
		if err == nil {
			return all, nil
		}
	}
	return nil, err
}

// start starts servers once, and kills all of them if one does not get ready.
func (l *Lab) start(name string, n int, more string) (all []*Server, err error) {
	defer func() {
		if err != nil {
			Stop(all)
		}
	}()

	all = make([]*Server, n)
	free := Ports(3 * n)
	var routes []string
	for i := range all {
		own := free[3*i:]
		all[i] = &Server{lab: l, name: fmt.Sprintf("%s-%d", name, i), client: own[0], routes: own[1], monitor: own[2]}
		routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", all[i].routes))
	}

	for _, s := range all {
		cluster := ""
		if n > 1 {
			cluster = fmt.Sprintf("cluster { name: %q, listen: \"127.0.0.1:%d\", routes: [%s] }\n", name, s.routes,
				strings.Join(routes, ", "))
		}
		text := fmt.Sprintf("server_name: %q\nlisten: \"127.0.0.1:%d\"\nhttp: \"127.0.0.1:%d\"\n"+
			"jetstream { store_dir: %q }\n%s%s\n", s.name, s.client, s.monitor, s.Data(), cluster, more)
		if err := os.WriteFile(s.path(".conf"), []byte(text), 0o600); err != nil {
			return all, err
		}
		if err := s.run(); err != nil {
			return all, err
		}
	}

	for _, s := range all {
		if err := s.ready(); err != nil {
			return all, err
		}
	}
	return all, nil
}

// Stop kills servers.
func Stop(all []*Server) {
	for _, s := range all {
		s.Kill()
	}
}

// Ports returns n different free ports, outside of the range from which clients get theirs.
func Ports(n int) []int {
	var found []int
	for len(found) < n {
		candidate := 10000 + rand.IntN(10000)
		listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", candidate))
		if err != nil {
			continue
		}
		defer listener.Close() // only now: a port that is still bound is not found twice
		found = append(found, candidate)
	}
	return found
}

func (s *Server) path(suffix string) string { return filepath.Join(s.lab.Dir, s.name+suffix) }

// Data returns the directory of the streams.
func (s *Server) Data() string { return s.path("") }

// Name returns the name of the server, as a stream shows its leader.
func (s *Server) Name() string { return s.name }

// Addr returns host and port for clients.
func (s *Server) Addr() string { return fmt.Sprint("127.0.0.1:", s.client) }

// Start starts a server again, and waits until it is ready.
func (s *Server) Start() (err error) {
	for range startTries {
		if err = s.run(); err != nil {
			return err
		}
		if err = s.ready(); err == nil {
			return nil
		}
		s.Kill()
	}
	return err
}

func (s *Server) run() error {
	out, err := os.OpenFile(s.path(".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()

	s.process = exec.Command(s.lab.command, "-c", s.path(".conf"))
	s.process.Stdout, s.process.Stderr = out, out
	endWithTests(s.process)
	if err := s.process.Start(); err != nil {
		return err
	}
	process, ended := s.process, make(chan struct{})
	s.ended = ended
	go func() {
		defer close(ended)
		_ = process.Wait() // how it ended is in its log
	}()
	return nil
}

// ready waits until the server says that it is healthy: its streams have then caught up with their leaders.
func (s *Server) ready() error {
	client := http.Client{Timeout: 5 * time.Second}
	for end := time.Now().Add(startTimeout); time.Now().Before(end) && s.runs(); time.Sleep(50 * time.Millisecond) {
		answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", s.monitor))
		if err != nil {
			continue // it does not listen yet
		}
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return nil
		}
	}

	text, _ := os.ReadFile(s.path(".log"))
	if len(text) > 8<<10 {
		text = text[:8<<10] // how it started; later lines repeat that it is not ready
	}
	return fmt.Errorf("nats-server %s is not ready after %v, or has ended: %s", s.name, startTimeout, text)
}

func (s *Server) runs() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// Kill ends the server at once.
func (s *Server) Kill() {
	if s.process != nil && s.ended != nil {
		_ = s.process.Process.Kill() // it is not there any more, or dies
		<-s.ended
	}
}

// Save copies the files of a server that was killed, and returns a function that brings them back.
func (s *Server) Save() (restore func() error, err error) {
	copied := s.path(".saved")
	if err := os.RemoveAll(copied); err != nil {
		return nil, err
	}
	if err := os.CopyFS(copied, os.DirFS(s.Data())); err != nil {
		return nil, err
	}
	return func() error {
		if err := os.RemoveAll(s.Data()); err != nil {
			return err
		}
		return os.CopyFS(s.Data(), os.DirFS(copied))
	}, nil
}

// Address returns the store's address of servers, with more parameters: /STREAM or ?a=b.
func Address(all []*Server, more string) string {
	var hosts []string
	for _, s := range all {
		hosts = append(hosts, s.Addr())
	}
	return "nats://" + strings.Join(hosts, ",") + more
}
