// Package redistest starts a real redis-server for the tests of a package.
package redistest

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// password is what a client of the server has to know.
const password = "secret"

// limit is how long a server has to answer.
const limit = 30 * time.Second

// Start starts a server on a free port of the loopback, and returns its address with a password. The server ends
// with the test.
func Start(t testing.TB) (address string) {
	t.Helper()
	for began := time.Now(); time.Since(began) < limit; {
		port := freePort(t)
		if launch(t, port) {
			return fmt.Sprintf("redis://:%s@127.0.0.1:%d", password, port)
		}
	}
	t.Fatalf("no redis-server answers in %v", limit)
	return ""
}

// launch returns true once the server answers, and false if it has ended: somebody else may have taken its port.
func launch(t testing.TB, port int) bool {
	t.Helper()
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()

	cmd := exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no", "--requirepass", password)
	cmd.Stdout = log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: 'make test' installs redis-server", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})

	for began := time.Now(); time.Since(began) < limit; {
		if answers(port) {
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	return false
}

// answers reports whether the server knows the password: another one on the same port would not.
func answers(port int) bool {
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	defer conn.Close()

	_ = conn.SetDeadline(time.Now().Add(limit))
	if _, err := io.WriteString(conn, "AUTH "+password+"\r\n"); err != nil {
		return false
	}
	answer := make([]byte, 64)
	n, _ := conn.Read(answer)
	return strings.HasPrefix(string(answer[:n]), "+OK")
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
