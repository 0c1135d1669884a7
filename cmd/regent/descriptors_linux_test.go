package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDescriptors starts a node with few file descriptors, and more clients than those.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	args := serveArgs(t, "a", sqliteStore(t))
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

// TestDescriptorsRunOut lowers the limit of a running node until every file descriptor that it may have is in use.
func TestDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	d := start(t, "a", sqliteStore(t), nil)
	d.until("/leader", 200)
	http.DefaultClient.CloseIdleConnections()

	for range 5 { // connections that wait for a request
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

	limit.Cur = 3 // below what is open: nothing new can be opened, however much is closed
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Skip(err)
	}

	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	d.await(`level=WARN msg="file descriptors have run out: .*" error=.*too many open files`)

	limit.Cur = uint64(highest() + 1) // as many as are open
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}

	d.until("/leader", 200)
}
