package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the command as users have it, built once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "regent-test-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "regent")
	out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})

// command returns the built command with arguments, and without the variables of this process that would configure it.
func command(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "REGENT_") || strings.HasPrefix(v, "COORDINATOR_") })
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// daemon is a real 'regent serve'.
type daemon struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	url  string
	gone chan struct{}

	mu    sync.Mutex
	lines []string
	news  chan struct{} // closed and replaced with each line
}

// start runs a node on a free port and waits until it serves.
func start(t testing.TB, name, store string, env []string, args ...string) *daemon {
	t.Helper()
	d := launch(t, name, command(t, env, serveArgs(t, name, store, args...)...), nil)
	d.serves()
	return d
}

// serveArgs returns the arguments of a node on a free port.
func serveArgs(t testing.TB, name, store string, args ...string) []string {
	node := []string{"serve", "--node", name, "--store", store, "--listen", "127.0.0.1:0", "--data-dir", t.TempDir()}
	return append(node, args...)
}

// launch starts a process. It keeps the lines of its standard error, and passes those of its
// standard output to out unless that is nil.
func launch(t testing.TB, name string, cmd *exec.Cmd, out func(line []byte)) *daemon {
	t.Helper()
	d := &daemon{t: t, name: name, cmd: cmd, gone: make(chan struct{}), news: make(chan struct{})}

	var readers sync.WaitGroup
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if out != nil {
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			for in := bufio.NewScanner(stdout); in.Scan(); {
				out(in.Bytes())
			}
		})
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	readers.Go(func() {
		for in := bufio.NewScanner(stderr); in.Scan(); {
			d.mu.Lock()
			d.lines = append(d.lines, in.Text())
			close(d.news)
			d.news = make(chan struct{})
			d.mu.Unlock()
		}
	})
	go func() {
		defer close(d.gone)
		readers.Wait()
		_ = cmd.Wait()
	}()

	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		select { // with its companion, which writes to the store too
		case <-d.gone:
		case <-time.After(10 * time.Second):
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", name, strings.Join(d.said(""), "\n"))
		}
	})
	return d
}

// serves waits until a node serves.
func (d *daemon) serves() {
	d.t.Helper()
	d.url = "http://" + d.await(`msg=serving listen=(\S+)`)
}

// said returns the lines that match.
func (d *daemon) said(pattern string) []string {
	re := regexp.MustCompile(pattern)
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.lines), func(l string) bool { return !re.MatchString(l) })
}

// await waits for a line that matches, and returns its first group, or all of it.
func (d *daemon) await(pattern string) string {
	d.t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.After(60 * time.Second)
	for from := 0; ; {
		d.mu.Lock()
		news := d.news
		for ; from < len(d.lines); from++ {
			if m := re.FindStringSubmatch(d.lines[from]); m != nil {
				d.mu.Unlock()
				return m[len(m)-1]
			}
		}
		d.mu.Unlock()
		select {
		case <-news:
		case <-d.gone:
			d.t.Fatalf("%s ended before it said %q", d.name, pattern)
		case <-limit:
			d.t.Fatalf("%s never said %q", d.name, pattern)
		}
	}
}

// get asks the node, and returns the code, 0 if it did not answer.
func (d *daemon) get(path string) (int, map[string]any) {
	ctx, cancel := context.WithTimeout(d.t.Context(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", d.url+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	var body map[string]any
	_ = json.Unmarshal(b, &body)
	return resp.StatusCode, body
}

// until asks until the answer has the code, and returns its body.
func (d *daemon) until(path string, code int) map[string]any {
	d.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(60 * time.Second); time.Now().Before(limit); <-tick.C {
		if got, body := d.get(path); got == code {
			return body
		}
	}
	got, body := d.get(path)
	d.t.Fatalf("%s %s is %d %v, and never %d", d.name, path, got, body, code)
	return nil
}

func (d *daemon) signal(sig syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		d.t.Fatal(err)
	}
}

// stop ends the node gracefully, and returns its exit code.
func (d *daemon) stop() int {
	d.t.Helper()
	d.signal(syscall.SIGTERM)
	select {
	case <-d.gone:
	case <-time.After(60 * time.Second):
		d.t.Fatalf("%s did not stop", d.name)
	}
	return d.cmd.ProcessState.ExitCode()
}

// neverTwo polls /leader of all nodes, every 10 ms, until the returned function is called.
func neverTwo(t *testing.T, nodes ...*daemon) (stop func()) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for polls := 0; ; polls++ {
			select {
			case <-quit:
				t.Logf("%d rounds of polling", polls)
				return
			case <-tick.C:
			}
			first := leading(nodes)
			if len(first) < 2 {
				continue
			}
			// Those answers came one after the other. Who says the same again, in the same term, led when the last of them came.
			again := leading(nodes)
			maps.DeleteFunc(first, func(i int, epoch any) bool { return again[i] != epoch })
			if len(first) > 1 {
				t.Errorf("nodes lead at once: %v", first)
			}
		}
	}()
	return func() { close(quit); <-done }
}

// leading asks all nodes at once, and returns the epochs of those that say that they lead.
func leading(nodes []*daemon) map[int]any {
	epochs := map[int]any{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			if code, body := n.get("/leader"); code == http.StatusOK {
				mu.Lock()
				defer mu.Unlock()
				epochs[i] = body["epoch"]
			}
		})
	}
	wg.Wait()
	return epochs
}
