// Package pgtest starts PostgreSQL servers for tests.
package pgtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// ready is how long a server may take to answer after its start.
const ready = time.Minute

// Server is a PostgreSQL server with a directory of its own and a free port of the loopback interface.
type Server struct {
	Port int
	Data string // its data directory
	dir  string
	cmd  *exec.Cmd
}

// Dir makes a directory for servers, in memory if the machine has one there. The caller removes it.
func Dir() (string, error) {
	parent := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		parent = "/dev/shm"
	}

	dir, err := os.MkdirTemp(parent, "regent-postgres")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o777) // the servers do not run as root
}

// New returns a server in the directory name below parent, which is not started and has no data.
func New(parent, name string) (*Server, error) {
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o777); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o777); err != nil { // whatever the umask
		return nil, err
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return &Server{Port: l.Addr().(*net.TCPAddr).Port, Data: filepath.Join(dir, "data"), dir: dir}, nil
}

// Start creates a server with an empty database, and starts it. Settings are those of postgresql.conf: fsync=on.
func Start(parent, name string, settings ...string) (*Server, error) {
	s, err := New(parent, name)
	if err != nil {
		return nil, err
	}

	out, err := s.Command("initdb", "-D", s.Data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
		"--no-sync").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("initdb (Debian's package postgresql has it): %w: %s", err, out)
	}
	return s, s.Start(settings...)
}

// Command returns a command of PostgreSQL, by a user who is not root: PostgreSQL refuses to run as root.
func (s *Server) Command(name string, args ...string) *exec.Cmd {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(found) > 0 {
		name = slices.Max(found)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	asNobody(cmd)
	return cmd
}

// Start starts the server, and waits until it answers. It does not wait for the disk, unless a setting says so.
func (s *Server) Start(settings ...string) error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer log.Close()

	port := strconv.Itoa(s.Port)
	args := []string{"-D", s.Data, "-p", port, "-k", s.dir, "-h", "127.0.0.1", "-c", "fsync=off",
		"-c", "max_connections=300"}
	for _, v := range settings {
		args = append(args, "-c", v)
	}

	s.cmd = s.Command("postgres", args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}

	for end := time.Now().Add(ready); s.Command("pg_isready", "-q", "-h", "127.0.0.1", "-p", port).Run() != nil; {
		if time.Now().After(end) {
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return errors.Join(fmt.Errorf("PostgreSQL does not answer after %v: %s", ready, text), s.Stop())
		}
		time.Sleep(20 * time.Millisecond) // before it is asked again
	}
	return nil
}

// Stop ends the server at once, and cuts its connections.
func (s *Server) Stop() error {
	err := s.cmd.Process.Signal(syscall.SIGQUIT)
	_ = s.cmd.Wait() // it never ends well on this signal
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Addr returns host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// URL returns the address of the database, with more parameters: a=b.
func (s *Server) URL(query ...string) string {
	u := "postgres://postgres@" + s.Addr() + "/postgres?sslmode=disable"
	for _, q := range query {
		u += "&" + q
	}
	return u
}
