package main

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/reaper/internal/redistest"
)

// asProgram is in the environment of a test binary that is to be the program, and of its companion.
const asProgram = "REGENT_EXAMPLE"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		slog.SetLogLoggerLevel(slog.LevelDebug)
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	within = 30 * time.Second // for whatever does not have to wait for a lease
	early  = 5 * time.Second  // well below the lease of 30 s; generous, for a busy machine
)

// released is what a companion logs when it has released the leases of its process.
const released = "process is gone: released what it held"

// process is one run of the program.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	out chan string // lines on its standard output

	quiet chan struct{} // closed when neither it nor its companion lives
	mu    sync.Mutex
	log   bytes.Buffer // of both
}

func start(t *testing.T, store, node string) *process {
	t.Helper()
	p := &process{
		t:     t,
		cmd:   exec.Command("/proc/self/exe", "-store", store, "-node", node),
		out:   make(chan string, 100),
		quiet: make(chan struct{}),
	}

	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	log, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}

	p.cmd.Stderr = stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}

	stderr.Close()

	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.out <- lines.Text()
		}
	}()

	go func() {
		defer close(p.quiet)
		defer log.Close()
		_, _ = io.Copy(p, log)
	}()

	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		<-p.quiet
	})

	return p
}

// Write takes in what the process and its companion log.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) logs() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// leads waits until the process leads.
func (p *process) leads(limit time.Duration) {
	p.t.Helper()
	select {
	case line := <-p.out:
		if !strings.Contains(line, "leads") {
			p.t.Fatal(line)
		}
	case <-time.After(limit):
		p.t.Fatalf("it does not lead within %v: %s", limit, p.logs())
	}
}

// logged waits until the process or its companion has logged something.
func (p *process) logged(text string) {
	p.t.Helper()
	for began := time.Now(); !strings.Contains(p.logs(), text); {
		if time.Since(began) > within {
			p.t.Fatalf("it has not logged %q within %v: %s", text, within, p.logs())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// ended waits until neither the process nor its companion lives.
func (p *process) ended() {
	p.t.Helper()
	select {
	case <-p.quiet:
	case <-time.After(within):
		p.t.Fatalf("it has not ended within %v: %s", within, p.logs())
	}
}

func TestExample(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes and stores: 'make test' runs it")
	}

	stores := map[string]func(*testing.T) string{
		"redis":  func(t *testing.T) string { return redistest.Start(t) },
		"sqlite": func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "example.db") },
	}

	for name, open := range stores {
		t.Run("a_leader_that_is_killed_is_replaced_long_before_its_lease_expires_"+name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			a := start(t, store, "a")
			a.leads(within)
			a.logged("store is open") // the companion knows what the leader holds
			b := start(t, store, "b")
			b.logged("new_leader=a")

			began := time.Now()
			if err := a.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}

			b.leads(early)
			t.Logf("took %v", time.Since(began))

			a.ended()
			if !strings.Contains(a.logs(), released) {
				t.Errorf("the companion did not release it: %s", a.logs())
			}
		})

		t.Run("a_leader_that_is_told_to_end_leaves_no_companion_"+name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			a := start(t, store, "a")
			a.leads(within)

			if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}

			a.ended()
			if err := a.cmd.Wait(); err != nil || strings.Contains(a.logs(), released) {
				t.Errorf("%v: %s", err, a.logs())
			}
		})
	}
}
