package check_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/check"
)

func checker() *check.Checker { return &check.Checker{AllowExec: true} }

// closed returns an address at which nobody listens.
func closed(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	return l.Addr().String()
}

// listen serves connections, one goroutine each, until the test ends.
func listen(t *testing.T, address string, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip("cannot listen:", err)
	}

	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}

			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()

	return l.Addr().String()
}

func TestTCP(t *testing.T) {
	settles(t)
	dialogue := func(conn net.Conn) {
		fmt.Fprint(conn, "+hello\r\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			switch lines.Text() {
			case "PING":
				fmt.Fprint(conn, "PO")
				fmt.Fprint(conn, "NG\r\n")
			case "QUIT":
				return
			case "FLOOD":
				for {
					if _, err := io.WriteString(conn, strings.Repeat("x", 1000)); err != nil {
						return
					}
				}
			}
		}
	}
	address := listen(t, "127.0.0.1:0", dialogue)
	for _, c := range []struct {
		name    string
		options []string
		ok      bool
		message string
	}{
		{"an_open_port_is_fine", nil, true, "connected"},
		{"a_greeting", []string{"expect", "+hello"}, true, "answered"},
		{"an_answer_in_pieces", []string{"send", "PING\r\n", "expect", "PONG"}, true, "answered"},
		{"sending_alone", []string{"send", "PING\r\n"}, true, "connected"},
		{"a_peer_that_closes", []string{"send", "QUIT\n", "expect", "PONG"}, false,
			`closed after 8 bytes without "PONG"`},
		{"a_peer_that_never_ends", []string{"send", "FLOOD\n", "expect", "PONG"}, false,
			`"PONG" is not in the first 64 KiB`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := run(t, "tcp", address, c.options...)
			found(t, o, c.ok, c.message)
			if o.Detail["address"] != address {
				t.Error(o.Detail)
			}
		})
	}

	t.Run("a_peer_that_is_silent", func(t *testing.T) {
		o := runFor(t, 2*time.Second, "tcp", address, "expect", "PONG")
		found(t, o, false, `8 bytes without "PONG": no answer in time`)
		if o.Detail["answer"] != "+hello" {
			t.Error(o.Detail)
		}
	})

	t.Run("a_closed_port", func(t *testing.T) {
		found(t, run(t, "tcp", closed(t)), false, "connection refused")
	})

	t.Run("an_IPv6_address", func(t *testing.T) {
		found(t, run(t, "tcp", listen(t, "[::1]:0", dialogue), "expect", "hello"), true, "")
	})

	t.Run("a_host_that_does_not_answer", func(t *testing.T) {
		found(t, runFor(t, 50*time.Millisecond, "tcp", unanswering(t)), false, "no answer in time")
	})
}
