package redis

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/storetest"
)

// shared is a server that most tests use, one after the other, each from an empty database.
var shared *server

func TestMain(m *testing.M) {
	if _, err := exec.LookPath(binary()); err != nil {
		fmt.Fprintln(os.Stderr, "these tests need a real redis-server: 'make test' installs it (Debian: apt-get "+
			"install redis-server redis-tools); REGENT_REDIS_SERVER names another")
		os.Exit(1)
	}

	dir, err := os.MkdirTemp("", "regent-redis")
	if err == nil {
		shared, err = launch(dir, freePort(), "--save", "", "--appendonly", "no")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	code := m.Run()
	shared.stop(syscall.SIGKILL)
	os.RemoveAll(dir)
	os.Exit(code)
}

// binary is the server that the tests start: another version of Redis, or Valkey, if the variable says so.
func binary() string {
	return cmp.Or(os.Getenv("REGENT_REDIS_SERVER"), "redis-server")
}

// server is a redis-server of the tests' own.
type server struct {
	dir  string
	port int
	conf string // a file, which comes first
	args []string
	cmd  *exec.Cmd
	out  *os.File
}

func (s *server) addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }
func (s *server) url() string  { return "redis://" + s.addr() }

var portsGiven sync.Map

// freePort returns one that nobody listens on, nor on the port of its cluster bus, and that is given to nobody else
// while its server is down: the system takes those of connections from 32768 on.
func freePort() int {
	for {
		port := 10000 + rand.IntN(10000)
		if _, given := portsGiven.LoadOrStore(port, true); given {
			continue
		}

		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}

		l.Close()
		if bus, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+10000)); err == nil {
			bus.Close()
			return port
		}
	}
}

func launch(dir string, port int, args ...string) (*server, error) {
	s := &server{dir: dir, port: port, args: args}
	return s, s.start()
}

// start returns when the server answers.
func (s *server) start() (err error) {
	if s.out, err = os.OpenFile(filepath.Join(s.dir, "out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}

	args := append([]string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir}, s.args...)
	if s.conf != "" {
		args = append([]string{s.conf}, args...)
	}

	s.cmd = exec.Command(binary(), args...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	dieWithUs(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return err
	}

	ok := eventually(20*time.Second, func() bool {
		conn, err := net.Dial("tcp", s.addr())
		if err != nil {
			return false
		}
		defer conn.Close()

		conn.SetDeadline(time.Now().Add(time.Second))
		fmt.Fprint(conn, "PING\r\n")
		b := make([]byte, 64)
		n, _ := conn.Read(b)
		return n > 0 && !strings.HasPrefix(string(b[:n]), "-LOADING")
	})
	if !ok {
		s.stop(syscall.SIGKILL)
		log, _ := os.ReadFile(filepath.Join(s.dir, "out"))
		return fmt.Errorf("redis-server on port %d does not answer: %s", s.port, log)
	}

	return nil
}

func (s *server) stop(sig syscall.Signal) {
	_ = s.cmd.Process.Signal(sig)
	_ = s.cmd.Wait()
	s.out.Close()
}

// startServer starts a server that ends with the test.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	s, err := launch(t.TempDir(), freePort(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	return s
}

// raw is a client as anybody may have one.
func raw(t testing.TB, srv *server) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{srv.addr()}, ForceSingleClient: true, DisableCache: true, AlwaysPipelining: true,
		PipelineMultiplex: -1,
		Dialer:            net.Dialer{KeepAlive: time.Hour}, // no pings, which would be counted
	})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(c.Close)
	return c
}

// cli sends one command, and returns the answer as text.
func cli(t testing.TB, srv *server, words ...string) string {
	t.Helper()
	return ask(t, raw(t, srv), words...)
}

func ask(t testing.TB, c rueidis.Client, words ...string) string {
	t.Helper()
	msg, err := c.Do(context.Background(), c.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%q: %v", words, err)
	}

	if n, err := msg.AsInt64(); err == nil {
		return strconv.FormatInt(n, 10)
	}

	if s, err := msg.ToString(); err == nil {
		return s
	}

	values, _ := msg.ToArray()
	all := make([]string, len(values))
	for i, v := range values {
		if all[i], err = v.ToString(); err != nil {
			n, _ := v.AsInt64()
			all[i] = strconv.FormatInt(n, 10)
		}
	}

	return strings.Join(all, "\n")
}

// empty flushes the shared server.
func empty(t testing.TB) *server {
	t.Helper()
	cli(t, shared, "FLUSHALL")
	return shared
}

func open(t testing.TB, url string) *Store {
	t.Helper()
	return storetest.Opened[*Store](t)(Open(t.Context(), url, Options{}))
}

// eventually polls until f holds.
func eventually(within time.Duration, f func() bool) bool {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()

	for end := time.After(within); !f(); {
		select {
		case <-end:
			return false
		case <-tick.C:
		}
	}
	return true
}

func await(t testing.TB, what string, within time.Duration, f func() bool) {
	t.Helper()
	if !eventually(within, f) {
		t.Fatalf("not after %v: %s", within, what)
	}
}

// proxy stands between clients and a server, and injects faults.
type proxy struct {
	answered atomic.Int64 // how many bytes the server has sent
	l        net.Listener
	target   string
	mu       sync.Mutex
	delay    time.Duration // of everything, in both directions
	deaf     bool          // answers are dropped
	conns    map[net.Conn]bool
}

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	p := &proxy{l: l, target: target, conns: map[net.Conn]bool{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()

	t.Cleanup(func() { l.Close(); p.cut() })
	return p
}

func (p *proxy) url() string { return "redis://" + p.l.Addr().String() }

func (p *proxy) set(f func()) {
	p.mu.Lock()
	f()
	p.mu.Unlock()
}

// swallow passes requests on, and drops the answers.
func (p *proxy) swallow(on bool) { p.set(func() { p.deaf = on }) }

// inject sends a command of nobody over every connection to the server.
func (p *proxy) inject(command string) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for c := range p.conns {
		if c.RemoteAddr().String() == p.target {
			_, _ = c.Write([]byte(command + "\r\n"))
		}
	}
}

// cut closes every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()

	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// lead sends new connections to another server, or to none, and closes those that are open.
func (p *proxy) lead(target string) {
	p.set(func() { p.target = target })
	p.cut()
}

func (p *proxy) serve(client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()

	srv, err := net.Dial("tcp", target)
	if err != nil {
		client.Close()
		return
	}

	p.set(func() { p.conns[client], p.conns[srv] = true, true })
	go p.pipe(srv, client, false)
	p.pipe(client, srv, true)
}

func (p *proxy) pipe(dst, src net.Conn, answers bool) {
	defer dst.Close()
	defer src.Close()

	type piece struct {
		at    time.Time
		bytes []byte
	}

	pieces := make(chan piece, 1024)
	go func() {
		for b := range pieces {
			time.Sleep(time.Until(b.at)) // the delay itself, not a wait for something
			if _, err := dst.Write(b.bytes); err != nil {
				break
			}
		}

		for range pieces {
		}
		dst.Close()
	}()
	defer close(pieces)

	for {
		b := make([]byte, 16<<10)
		n, err := src.Read(b)
		if err != nil {
			return
		}

		p.mu.Lock()
		lost, delay := p.deaf && answers, p.delay
		p.mu.Unlock()

		if answers {
			p.answered.Add(int64(n))
		}
		if !lost {
			pieces <- piece{time.Now().Add(delay), b[:n]}
		}
	}
}
