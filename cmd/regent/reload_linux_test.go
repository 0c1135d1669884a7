package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// verb asks a node for something harmless that needs the token, and returns the code.
func (d *daemon) verb(token string) int {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), "POST", d.url+"/v1/elections/coordinator/resume", strings.NewReader(`{"epoch":1}`))
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

func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const before, after = "the-token-before-the-signal", "the-token-after-the-signal"
	token := writeFile(t, filepath.Join(dir, "token"), before+"\n")
	text := fmt.Sprintf("tokenFile: %s\n", token)
	config := writeFile(t, filepath.Join(dir, "regent.yaml"), text+"logLevel: info\n")
	d := start(t, "a", "sqlite:"+filepath.Join(dir, "x.db"), nil, "--config", config)
	d.until("/leader", 200)

	t.Run("SIGHUP_takes_in_a_new_token_and_a_new_log_level_and_goes_on_leading", func(t *testing.T) {
		writeFile(t, token, after+"\n")
		writeFile(t, config, text+"logLevel: debug\n")
		if got := d.verb(before); got != 200 {
			t.Errorf("before the signal, the former token: %d", got)
		}
		d.signal(syscall.SIGHUP)
		d.await(`msg="configuration reloaded" logLevel=DEBUG newToken=true`)
		if got := d.verb(before); got != 401 {
			t.Errorf("the former token: %d", got)
		}
		if got := d.verb(after); got != 200 {
			t.Errorf("the new token: %d", got)
		}
		d.await("level=DEBUG")
		if code, body := d.get("/leader"); code != 200 || body["epoch"] != 1.0 {
			t.Errorf("%d %v", code, body)
		}
	})
	t.Run("a_configuration_that_is_wrong_changes_nothing", func(t *testing.T) {
		writeFile(t, token, "")
		writeFile(t, config, text+"logLevel: loud\n")
		d.signal(syscall.SIGHUP)
		d.await(`level=WARN msg="configuration cannot be reloaded: the former one stays in use" error=.*logLevel`)
		if got := d.verb(after); got != 200 {
			t.Errorf("%d", got)
		}
	})
	t.Run("keys_that_need_a_restart_are_named", func(t *testing.T) {
		writeFile(t, token, after+"\n")
		writeFile(t, config, text+"leaseDuration: 9s\nduties: {x: {command: [sleep, '9']}}\n")
		d.signal(syscall.SIGHUP)
		d.await(`take effect at a restart" keys=leaseDuration,workerTimeout,duties`)
	})
	t.Run("many_signals_at_once_do_not_end_it_and_a_stop_still_releases", func(t *testing.T) {
		for range 50 {
			d.signal(syscall.SIGHUP)
		}
		if code, body := d.get("/leader"); code != 200 || body["epoch"] != 1.0 {
			t.Errorf("%d %v", code, body)
		}
		d.signal(syscall.SIGTERM)
		d.signal(syscall.SIGHUP)
		if code := d.stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if len(d.said(`msg=stopped`)) != 1 {
			t.Error("it did not stop in order")
		}
	})
}

// TestReloadKeepsTheToken empties the file that holds the token, and signals.
func TestReloadKeepsTheToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const token = "the-token-that-must-stay"
	config := writeFile(t, filepath.Join(dir, "regent.yaml"), "token: "+token+"\n")
	d := start(t, "a", "sqlite:"+filepath.Join(dir, "x.db"), nil, "--config", config)
	d.until("/leader", 200)

	writeFile(t, config, "")
	d.signal(syscall.SIGHUP)
	d.await(`level=WARN msg="configuration cannot be reloaded: .*restart.* key=token$|level=INFO msg="configuration reloaded"`)
	if got := d.verb(""); got != 401 {
		t.Errorf("without a token: %d", got)
	}
	if got := d.verb(token); got != 200 {
		t.Errorf("the token: %d", got)
	}
	t.Run("a_pipe_in_place_of_the_file_is_not_waited_for", func(t *testing.T) {
		if err := os.Remove(config); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(config, 0o600); err != nil {
			t.Fatal(err)
		}
		d.signal(syscall.SIGHUP)
		d.await(`level=WARN msg="configuration cannot be reloaded.*is a named pipe`)
	})
	if len(d.said(`never switches authentication off.* key=token$`)) != 1 {
		t.Error("nothing was said")
	}
}

// TestSIGHUPWhileStarting has signals come from the very beginning, and the store missing.
func TestSIGHUPWhileStarting(t *testing.T) {
	t.Parallel()
	d := start(t, "a", "redis://127.0.0.1:1", nil)
	d.signal(syscall.SIGHUP)
	d.await("configuration reloaded")
	select {
	case <-d.gone:
		t.Error("it ended")
	default:
	}
}

// serial returns the serial number of the certificate that a node shows.
func serial(t *testing.T, d *daemon) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(d.url, "http://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestNewCertificates(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	config := ca.issue("a")
	d := start(t, "a", "sqlite:"+filepath.Join(t.TempDir(), "x.db"), nil, "--config", config)
	d.await("became leader")
	first := serial(t, d)

	t.Run("SIGHUP_takes_them_in_at_once", func(t *testing.T) {
		ca.issue("a")
		d.signal(syscall.SIGHUP)
		d.await("certificates reloaded")
		if got := serial(t, d); got == first {
			t.Error("the former one is in use")
		}
	})
	t.Run("a_file_that_is_broken_is_not_used_and_said_once", func(t *testing.T) {
		was := serial(t, d)
		whole, err := os.ReadFile(ca.file("a.crt"))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, ca.file("a.crt"), string(whole[:len(whole)/2]))
		d.signal(syscall.SIGHUP)
		d.signal(syscall.SIGHUP)
		d.await(`level=WARN msg="certificates cannot be reloaded: the former ones stay in use" error=.*tlsCert`)
		if got := serial(t, d); got != was {
			t.Errorf("another one is in use: %d", got)
		}
		if err := os.Remove(ca.file("a.crt")); err != nil {
			t.Fatal(err)
		}
		d.signal(syscall.SIGHUP)
		d.await(`stay in use" error=.*no such file`)
		if n := len(d.said("certificates cannot be reloaded.*PEM|failed to find")); n > 1 {
			t.Errorf("said %d times", n)
		}
	})
	t.Run("they_are_found_within_a_minute_without_a_signal", func(t *testing.T) {
		was := serial(t, d)
		ca.issue("a")
		waitFor(t, "a new certificate", func() bool { return serial(t, d) != was })
	})
	t.Run("a_new_authority_counts_for_clients_and_the_former_one_no_more", func(t *testing.T) {
		other := newAuthority(t)
		other.issue("operator")
		ca.issue("operator")
		trusted := func(a *authority) bool {
			pair, err := tls.LoadX509KeyPair(a.file("operator.crt"), a.file("operator.key"))
			if err != nil {
				t.Fatal(err)
			}
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}}
			defer transport.CloseIdleConnections()
			url := "https" + strings.TrimPrefix(d.url, "http") + "/v1/elections/coordinator/resume"
			resp, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Post(url, "application/json", strings.NewReader(`{"epoch":1}`))
			if err != nil {
				return false
			}
			resp.Body.Close()
			return resp.StatusCode == 200
		}
		if !trusted(ca) || trusted(other) {
			t.Fatal("before")
		}
		b, err := os.ReadFile(other.file("ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, ca.file("ca.crt"), string(b))
		d.signal(syscall.SIGHUP)
		waitFor(t, "the new authority counts", func() bool { return trusted(other) })
		if trusted(ca) {
			t.Error("the former authority still counts")
		}
	})
	d.stop()
}

// TestDescriptors has a node with few descriptors, and more clients than those.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	args := serveArgs(t, "a", "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	bare := command(t, nil, args...)
	cmd := exec.Command("sh", append([]string{"-c", `ulimit -n 64; exec "$0" "$@"`, bare.Path}, args...)...)
	cmd.Env = bare.Env
	d := launch(t, "a", cmd, nil)
	d.serves()
	d.until("/leader", 200)

	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	refused := 0
	for i := range 600 {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(d.url, "http://"), 5*time.Second)
		if err != nil {
			refused++
			continue
		}
		conns = append(conns, conn)
		switch i % 3 {
		case 0:
			fmt.Fprint(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
		case 1:
			fmt.Fprint(conn, "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
		}
	}
	t.Logf("%d of 600 connections were refused", refused)

	for i := range 50 {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
		for _, path := range []string{"/leader", "/readyz", "/livez"} {
			resp, err := client.Get(d.url + path)
			if err != nil {
				t.Fatalf("round %d: %s: %v", i, path, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if resp.Body.Close(); resp.StatusCode != 200 {
				t.Fatalf("round %d: %s: %s", i, path, resp.Status)
			}
		}
	}
	d.await(`level=WARN msg="(more than \d+ connections|file descriptors have run out)`)
	d.await(`level=WARN msg="event streams are refused`)
}

// TestDescriptorsRunOut takes the descriptors from a running node: every one that it may have is in use.
func TestDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	d := start(t, "a", "sqlite:"+filepath.Join(t.TempDir(), "x.db"), nil)
	d.until("/leader", 200)
	http.DefaultClient.CloseIdleConnections()
	for range 5 { // that wait for a request
		conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	pid := d.cmd.Process.Pid
	files := fmt.Sprintf("/proc/%d/fd", pid)
	highest := func() (n int) {
		entries, err := os.ReadDir(files)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			fd, _ := strconv.Atoi(e.Name())
			n = max(n, fd)
		}
		return n
	}
	waitFor(t, "all connections are accepted", func() bool {
		before := highest()
		<-time.After(100 * time.Millisecond)
		return highest() == before
	})
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = 3 // below what is open: there is no descriptor for anything new, however many are closed
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Skip(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	d.await(`level=WARN msg="file descriptors have run out: .*" error=.*too many open files`)

	limit.Cur = uint64(highest() + 1) // exactly as many as there are
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	d.until("/leader", 200)
}
