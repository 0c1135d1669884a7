package main

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// redisServer is a real redis-server on a free port of the loopback.
type redisServer struct {
	t    *testing.T
	port string
	dir  string
	sync string // when it syncs its log to the disk
	cmd  *exec.Cmd
}

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	r := newRedis(t)
	r.start()
	return r
}

// newRedis is a server that does not run yet.
func newRedis(t *testing.T) *redisServer {
	t.Helper()
	_, port, err := net.SplitHostPort(freePort())
	if err != nil {
		t.Fatal(err)
	}
	r := &redisServer{t: t, port: port, dir: t.TempDir(), sync: "always"}
	t.Cleanup(func() {
		if r.cmd != nil {
			_ = r.cmd.Process.Kill()
			_ = r.cmd.Wait()
		}
	})
	return r
}

func (r *redisServer) start() {
	r.t.Helper()
	r.cmd = exec.Command("redis-server", "--port", r.port, "--bind", "127.0.0.1", "--dir", r.dir, "--appendonly", "yes", "--appendfsync", r.sync, "--save", "")
	if err := r.cmd.Start(); err != nil {
		r.t.Fatalf("%v: 'make test' installs redis-server", err)
	}
	for limit := time.Now().Add(30 * time.Second); r.cli("PING") != "PONG"; {
		if time.Now().After(limit) {
			r.t.Fatal("redis-server does not answer")
		}
	}
}

func (r *redisServer) cli(args ...string) string {
	out, _ := exec.Command("redis-cli", append([]string{"-p", r.port}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out))
}

func (r *redisServer) address() string { return "redis://127.0.0.1:" + r.port }

// proxy stands between a node and Redis, and swallows what it is told to.
type proxy struct {
	to       string
	listener net.Listener
	cutTo    atomic.Bool // requests
	cutFrom  atomic.Bool // answers
	delay    atomic.Int64
	late     atomic.Int64 // answers are passed on so much later
	single   atomic.Bool  // bytes are passed on one by one
	mu       sync.Mutex
	conns    map[net.Conn]bool
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: to, listener: l, conns: map[net.Conn]bool{}}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			p.keep(c, s)
			requests := make(chan chunk, 1024)
			answers := make(chan chunk, 1024)
			work.Go(func() { p.read(c, requests, &p.cutTo, nil) })
			work.Go(func() { p.write(s, requests) })
			work.Go(func() { p.read(s, answers, &p.cutFrom, &p.late) })
			work.Go(func() { p.write(c, answers) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); p.drop(); work.Wait() })
	return p
}

func (p *proxy) address() string { return "redis://" + p.listener.Addr().String() }

func (p *proxy) keep(cs ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range cs {
		p.conns[c] = true
	}
}

// drop closes every connection: what was swallowed cannot be made up for.
func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = map[net.Conn]bool{}
}

// heal ends every fault, and closes the connections.
func (p *proxy) heal() {
	p.cutTo.Store(false)
	p.cutFrom.Store(false)
	p.delay.Store(0)
	p.late.Store(0)
	p.single.Store(false)
	p.drop()
}

// chunk is what was read at once, and when it is to be passed on.
type chunk struct {
	data []byte
	due  time.Time
}

// read queues what comes from one side. It closes the connection and the queue at the end.
func (p *proxy) read(from net.Conn, queue chan<- chunk, cut *atomic.Bool, late *atomic.Int64) {
	defer from.Close()
	defer close(queue)
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if d := time.Duration(p.delay.Load()); d > 0 {
			<-time.After(d)
		}
		if cut.Load() {
			continue
		}
		c := chunk{data: bytes.Clone(b[:n]), due: time.Now()}
		if late != nil {
			c.due = c.due.Add(time.Duration(late.Load()))
		}
		queue <- c
	}
}

// write passes on what is queued, each chunk when it is due. It closes the connection at the end.
func (p *proxy) write(to net.Conn, queue <-chan chunk) {
	defer to.Close()
	for c := range queue {
		if wait := time.Until(c.due); wait > 0 {
			<-time.After(wait)
		}
		size := len(c.data)
		if p.single.Load() {
			size = 1
		}
		for part := range slices.Chunk(c.data, size) {
			if _, err := to.Write(part); err != nil {
				break // the queue is read to its end
			}
			if size == 1 {
				<-time.After(byteInterval)
			}
		}
	}
}

// byteInterval is the time between two bytes that are passed on one by one.
const byteInterval = time.Millisecond

// roles polls what the nodes say of themselves on /readyz until stopped, and fails if two say that they lead.
func roles(t *testing.T, every time.Duration, nodes ...*daemon) (stop func()) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			var leaders []string
			for _, n := range nodes {
				if _, body := n.get("/readyz"); body["role"] == "leader" {
					leaders = append(leaders, n.name)
				}
			}
			if len(leaders) > 1 {
				t.Errorf("%v say at once that they lead", leaders)
			}
		}
	}()
	return func() { close(quit); <-done }
}

// terms returns the epochs of the terms that a node logged, in order, and when each began or was lost.
func (d *daemon) terms(message string) (epochs []uint64, at []time.Time) {
	d.t.Helper()
	for _, line := range d.said(`msg="` + message + `".* node=` + d.name + ` `) {
		m := regexp.MustCompile(`^time=(\S+) .* epoch=(\d+)`).FindStringSubmatch(line)
		when, err := time.Parse(time.RFC3339Nano, m[1])
		if err != nil {
			d.t.Fatal(err)
		}
		epoch, _ := strconv.ParseUint(m[2], 10, 64)
		epochs = append(epochs, epoch)
		at = append(at, when)
	}
	return epochs, at
}

// tookOver checks that b has led after a, as their logs have it: a was granted the first epoch, and lost it before b was
// granted the second one, unless it was frozen.
func tookOver(t *testing.T, a, b *daemon, frozen bool) {
	t.Helper()
	granted, _ := a.terms("became leader")
	lost, lostAt := a.terms("lost leadership")
	next, nextAt := b.terms("became leader")
	if !slices.Equal(granted, []uint64{1}) || !slices.Equal(lost, []uint64{1}) || !slices.Equal(next, []uint64{2}) {
		t.Fatalf("a was granted %v and lost %v, b was granted %v", granted, lost, next)
	}
	// Lines are written a moment after what they tell of. Whether two led at once is polled.
	if late := lostAt[0].Sub(nextAt[0]); late > 2*time.Second && !frozen {
		t.Errorf("a logged its loss %v after b its term", late)
	}
}

// epochsGrow checks that no epoch was granted twice.
func epochsGrow(t *testing.T, nodes ...*daemon) {
	t.Helper()
	seen := map[uint64]string{}
	for _, d := range nodes {
		epochs, _ := d.terms("became leader")
		if !slices.IsSorted(epochs) {
			t.Errorf("%s led in epochs %v", d.name, epochs)
		}
		for _, epoch := range epochs {
			if seen[epoch] != "" {
				t.Errorf("%s and %s both led in epoch %d", seen[epoch], d.name, epoch)
			}
			seen[epoch] = d.name
		}
	}
}

func TestRedis(t *testing.T) {
	lock := []string{"--profile", "lock"}

	t.Run("L01_L02_L03_the_key_is_the_seat_with_an_expiry_of_30s_and_is_renewed", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		a := start(t, "a", r.address(), nil, lock...)
		a.until("/leader", 200)
		b := start(t, "b", r.address(), nil, lock...)
		b.until("/standby", 200)
		if got := r.cli("GET", "stargate:leader"); !strings.HasPrefix(got, "a/") {
			t.Errorf("the key holds %q", got)
		}
		ttl := func() int { n, _ := strconv.Atoi(r.cli("PTTL", "stargate:leader")); return n }
		if n := ttl(); n <= 0 || n > 30000 {
			t.Errorf("it expires in %d ms", n)
		}
		// It falls until the renewal at 10 s, and no further.
		least, before := 30000, ttl()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); <-tick.C {
			now := ttl()
			least = min(least, now)
			if now > before+5000 {
				break
			}
			before = now
		}
		if least < 16500 || least > 23500 {
			t.Errorf("it was renewed with %d ms to go", least)
		}
		a.stop()
		b.until("/leader", 200)
		if got := r.cli("GET", "stargate:leader"); !strings.HasPrefix(got, "b/") {
			t.Errorf("the key holds %q", got)
		}
		b.stop()
		if got := r.cli("EXISTS", "stargate:leader"); got != "0" {
			t.Errorf("the key is still there")
		}
	})

	t.Run("L07_failover_as_its_seed_describes_it", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		a := start(t, "a", r.address(), nil, lock...)
		<-time.After(10 * time.Second)
		for _, path := range []string{"/healthz", "/readyz"} {
			if code, body := a.get(path); code != 200 || body["role"] != "leader" || body["leader"] != "a" {
				t.Errorf("%s: %d %v", path, code, body)
			}
		}
		a.signal(syscall.SIGKILL)
		<-a.gone
		<-time.After(5 * time.Second)
		b := start(t, "b", r.address(), nil, lock...)
		<-time.After(15 * time.Second)
		for _, path := range []string{"/healthz", "/readyz"} {
			if code, body := b.get(path); code != 200 || body["role"] != "leader" || body["leader"] != "b" || body["epoch"] != 2.0 {
				t.Errorf("%s: %d %v", path, code, body)
			}
		}
		if n, m := len(a.said("became leader")), len(b.said("became leader")); n != 1 || m != 1 {
			t.Errorf("a became leader %d times, b %d times", n, m)
		}
		b.stop()
	})

	t.Run("L08_split_brain_as_its_seed_describes_it", func(t *testing.T) {
		t.Parallel()
		// The lease is shorter than the cut, so that b takes over while a tries to renew.
		short := append(lock, "--lease-duration", "7s", "--renew-interval", "2s", "--stop-timeout", "500ms", "--worker-timeout", "7s",
			"--heartbeat-interval", "2s", "--election-interval", "1s", "--reaper=false")
		r := startRedis(t)
		p := startProxy(t, "127.0.0.1:"+r.port)
		a := start(t, "a", p.address(), nil, short...)
		a.until("/leader", 200)
		b := start(t, "b", r.address(), nil, short...)
		b.until("/standby", 200)
		second, fast := roles(t, time.Second, a, b), roles(t, 20*time.Millisecond, a, b)
		both := neverTwo(t, a, b)
		p.cutTo.Store(true)
		p.cutFrom.Store(true)
		<-time.After(10 * time.Second)
		b.await("became leader")
		p.heal()
		body := a.until("/standby", 200)
		for body["leader"] != "b" {
			body = a.until("/standby", 200)
		}
		<-time.After(5 * time.Second) // past every renewal and retry of the cut
		second()
		fast()
		both()
		tookOver(t, a, b, false)
		a.stop()
		b.stop()
	})

	for name, hurt := range map[string]func(*redisServer, *proxy, *daemon){
		"requests_cut":     func(_ *redisServer, p *proxy, _ *daemon) { p.cutTo.Store(true) },
		"answers_cut":      func(_ *redisServer, p *proxy, _ *daemon) { p.cutFrom.Store(true) },
		"both_ways_cut":    func(_ *redisServer, p *proxy, _ *daemon) { p.cutTo.Store(true); p.cutFrom.Store(true) },
		"slow":             func(_ *redisServer, p *proxy, _ *daemon) { p.delay.Store(int64(1500 * time.Millisecond)) },
		"leader_paused":    func(_ *redisServer, _ *proxy, a *daemon) { a.signal(syscall.SIGSTOP) },
		"server_restarted": func(r *redisServer, _ *proxy, _ *daemon) { _ = r.cmd.Process.Kill(); _ = r.cmd.Wait(); r.start() },
		"server_flushed":   func(r *redisServer, _ *proxy, _ *daemon) { r.cli("FLUSHALL") },
	} {
		for _, profile := range []string{"lock", "cluster"} {
			t.Run(fmt.Sprintf("C11_L08_never_two_leaders_with_%s_%s", name, profile), func(t *testing.T) {
				t.Parallel()
				args := []string{"--profile", profile, "--lease-duration", "5s", "--stop-timeout", "500ms", "--heartbeat-interval", "1s", "--takeover-delay", "500ms", "--election-interval", "1s", "--reaper=false"}
				if profile == "lock" {
					args = append(args, "--renew-interval", "1s", "--worker-timeout", "5s")
				}
				r := startRedis(t)
				p := startProxy(t, "127.0.0.1:"+r.port)
				a := start(t, "a", p.address(), nil, args...)
				a.until("/leader", 200)
				b := start(t, "b", r.address(), nil, args...)
				b.until("/standby", 200)
				stop := neverTwo(t, a, b)
				hurt(r, p, a)
				<-time.After(8 * time.Second)
				silent := slices.Contains([]string{"requests_cut", "answers_cut", "both_ways_cut", "leader_paused"}, name)
				if silent { // for longer than its lease
					b.await("became leader")
				}
				if name == "leader_paused" {
					a.signal(syscall.SIGCONT)
				}
				p.heal()
				<-time.After(4 * time.Second)
				stop()
				// Somebody leads, and epochs have only grown.
				for limit := time.Now().Add(60 * time.Second); ; {
					x, _ := a.get("/leader")
					y, _ := b.get("/leader")
					if x == 200 || y == 200 {
						break
					}
					if time.Now().After(limit) {
						t.Fatal("nobody leads any more")
					}
				}
				if silent {
					a.until("/standby", 200)
					tookOver(t, a, b, name == "leader_paused")
				}
				epochsGrow(t, a, b)
				a.stop()
				b.stop()
				if name == "server_flushed" && len(a.said("store:regressed"))+len(b.said("store:regressed")) == 0 {
					t.Error("nobody has noticed the flush")
				}
			})
		}
	}
}
