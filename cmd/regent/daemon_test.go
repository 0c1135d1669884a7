package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
)

// daemon is a real 'regent serve'.
type daemon struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	url  string
	gone chan struct{} // closed when it has ended, and its reaper too

	stderr string // the name of the pipe

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
	node := []string{"serve", "--node", name, "--store", store, "--listen", "127.0.0.1:0", "--data-dir", inMemory(t)}
	return append(node, args...)
}

// launch starts a process. It keeps the lines of its standard error, and calls out with those of its standard output
// unless out is nil.
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

	d.stderr, _ = os.Readlink(fmt.Sprintf("/proc/%d/fd/2", cmd.Process.Pid)) // empty where there is no /proc

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
		select { // until its reaper has ended, which writes to the store too
		case <-d.gone:
		case <-time.After(10 * time.Second):
			d.endRest()
		}

		if t.Failed() {
			t.Logf("%s said:\n%s", name, strings.Join(d.said(""), "\n"))
		}
	})

	return d
}

// endRest kills what a process has left behind, and waits until it is gone: its reaper tries to release for as long as
// the lease lasts, though the store is gone for good. What is left has the same standard error.
func (d *daemon) endRest() {
	d.t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*/fd/2")
	for _, path := range all {
		if name, err := os.Readlink(path); err != nil || name != d.stderr {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
		if p, err := os.FindProcess(pid); err == nil && pid != os.Getpid() {
			_ = p.Kill() // it has ended meanwhile, or dies
		}
	}

	select {
	case <-d.gone:
	case <-time.After(time.Minute):
		d.t.Errorf("%s has ended, and something that it has started has not", d.name)
	}
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

// get sends a GET, and returns the status and the body; 0 if the node does not answer.
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

// until repeats a GET until the answer has the status, and returns its body.
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

// signal sends a signal to the process.
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

// saidSince returns the lines that match and were written at or after that time.
func (d *daemon) saidSince(pattern string, since time.Time) []string {
	return slices.DeleteFunc(d.said(pattern), func(line string) bool {
		text, _, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
		at, err := time.Parse(time.RFC3339Nano, text)
		return err != nil || at.Before(since.Truncate(time.Millisecond))
	})
}

// do sends a request, and returns the status, the header and the body of the answer.
func (d *daemon) do(method, path, body string, header ...string) (int, http.Header, map[string]any) {
	d.t.Helper()
	code, got, answer, err := d.try(method, path, body, header...)
	if err != nil {
		d.t.Fatalf("%s %s %s: %v", d.name, method, path, err)
	}

	return code, got, answer
}

// try is do that returns an error if there is no answer.
func (d *daemon) try(method, path, body string, header ...string) (int, http.Header, map[string]any, error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 40*time.Second)
	defer cancel()

	r, err := http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}

	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()

	b, err := io.ReadAll(resp.Body)
	var answer map[string]any
	_ = json.Unmarshal(b, &answer)
	return resp.StatusCode, resp.Header, answer, err
}

// seen repeats a GET until the answer is as is wants it, and returns it.
func seen[T any](d *daemon, path string, is func(T) bool) T {
	d.t.Helper()
	var last []byte
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()

	for limit := time.Now().Add(60 * time.Second); time.Now().Before(limit); <-tick.C {
		resp, err := http.Get(d.url + path)
		if err != nil {
			continue
		}

		last, _ = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		var answer T
		if json.Unmarshal(last, &answer) == nil && is(answer) {
			return answer
		}
	}

	d.t.Fatalf("%s: %s never becomes as the test wants it, it is\n%s", d.name, path, last)
	panic("unreachable")
}

// happens waits for an event of a node. The stream begins with the events before.
func (d *daemon) happens(kind regent.EventKind, is func(regent.Event) bool) regent.Event {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 60*time.Second)
	defer cancel()

	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/v1/events", nil)
	if err != nil {
		d.t.Fatal(err)
	}

	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()

	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		text, ok := strings.CutPrefix(in.Text(), "data: ")
		var e regent.Event
		if ok && json.Unmarshal([]byte(text), &e) == nil && e.Kind == kind && is(e) {
			return e
		}
	}

	d.t.Fatalf("%s: no such event %s", d.name, kind)
	panic("unreachable")
}

// waitFor polls until a condition holds.
func waitFor(t *testing.T, what string, good func() bool) {
	t.Helper()

	for deadline := time.Now().Add(60 * time.Second); !good(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

// verb sends a harmless verb with a token, and returns the status.
func (d *daemon) verb(token string) int {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), "POST", d.url+"/v1/elections/coordinator/resume",
		strings.NewReader(`{"epoch":1}`))
	if err != nil {
		d.t.Fatal(err)
	}

	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()

	return resp.StatusCode
}

// terms returns the epochs of the terms that a node has logged with this message, in order, and when.
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

// logged returns when a node logged a line.
func (d *daemon) logged(pattern string) time.Time {
	d.t.Helper()
	d.await(pattern)
	at, err := time.Parse(time.RFC3339Nano, regexp.MustCompile(`time=(\S+)`).FindStringSubmatch(d.said(pattern)[0])[1])
	if err != nil {
		d.t.Fatal(err)
	}

	return at
}
