package demo

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestProxyHangs lets a connection hang: it stays, and what was sent meanwhile arrives later.
func TestProxyHangs(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()

	p, err := newProxy(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	conn, err := net.Dial("tcp", p.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	echo := func(wait time.Duration) error {
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		_, err := io.ReadFull(conn, make([]byte, 4))
		return err
	}
	send := func() {
		t.Helper()
		if _, err := conn.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
	}

	send()
	if err := echo(time.Minute); err != nil {
		t.Fatal(err)
	}
	p.hang(true)
	p.hang(true)
	send()
	if err := echo(100 * time.Millisecond); err == nil {
		t.Error("an answer came through")
	}
	p.hang(false)
	p.hang(false)
	if err := echo(time.Minute); err != nil {
		t.Errorf("what was sent meanwhile is lost: %v", err)
	}
}

func TestScreenKeepsLinesWithoutATerminalWhole(t *testing.T) {
	var out strings.Builder
	s := newScreen(Options{Out: &out})
	long := strings.Repeat("word ", 60)
	s.say("%s", long)
	if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), long) {
		t.Errorf("%q", out.String())
	}
}

func TestWrapBreaksBetweenWords(t *testing.T) {
	text := "  1.234  " + strings.Repeat("word ", 10) + "endofit"
	got := wrapped(text, 40)
	want := []string{"  1.234  word word word word word word", "         word word word word endofit"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", got)
	}
	for _, width := range []int{0, 5, 200} {
		if got := wrapped(text, width); len(got) != 1 || got[0] != text {
			t.Errorf("width %d: %q", width, got)
		}
	}
	if got := wrapped("  1.234  "+strings.Repeat("x", 99), 40); len(got) != 1 {
		t.Errorf("a word that is too long is broken: %q", got)
	}
}
