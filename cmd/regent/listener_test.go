package main

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/api"
)

// dial opens a connection to a server.
func dial(t *testing.T, url string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = c.Close() })
	return c
}

// cutOff returns how long it takes the other side to close a connection on which b is written every interval, up to
// limit.
func cutOff(t *testing.T, c net.Conn, b string, every, limit time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, c)
	}()

	tick := time.NewTicker(every)
	defer tick.Stop()

	for {
		select {
		case <-closed:
			return time.Since(began)
		case <-tick.C:
			_, _ = io.WriteString(c, b)
		case <-time.After(limit - time.Since(began)):
			t.Fatalf("after %v the connection is still there", limit)
		}
	}
}

func TestSlowClients(t *testing.T) {
	t.Run("a_request_whose_header_trickles_is_cut_off_and_so_is_one_whose_body_does", func(t *testing.T) {
		t.Parallel()
		a := start(t, "a", "memory:", nil)
		for name, tt := range map[string]struct {
			begin, more string
			after       time.Duration
		}{
			"no_header": {"", "", 5 * time.Second},
			"header":    {"GET /livez HTTP/1.1\r\nHost: localhost\r\n", "X: y\r\n", 5 * time.Second},
			"body": {"POST /v1/elections/coordinator/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
				"60000\r\n\r\n{", " ", 10 * time.Second},
			"chunks": {"POST /v1/elections/coordinator/pause HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " +
				"chunked\r\n\r\n", "1\r\n \r\n", 10 * time.Second},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := dial(t, a.url)
				if _, err := io.WriteString(c, tt.begin); err != nil {
					t.Fatal(err)
				}

				if took := cutOff(t, c, tt.more, 200*time.Millisecond,
					tt.after+20*time.Second); took < tt.after-time.Second {
					t.Errorf("cut off after %v, which is no time for an honest client", took)
				}

				// Others are served meanwhile, and afterwards.
				if code, _ := a.get("/livez"); code != 200 {
					t.Errorf("/livez is %d", code)
				}
			})
		}
	})

	t.Run("an_idle_connection_is_closed_and_every_limit_is_set", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewUnstartedServer(nil)
		server.Config = api.Server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "ok")
		}), slog.New(slog.DiscardHandler))
		s := server.Config
		for name, d := range map[string]time.Duration{"ReadHeaderTimeout": s.ReadHeaderTimeout,
			"ReadTimeout": s.ReadTimeout, "WriteTimeout": s.WriteTimeout, "IdleTimeout": s.IdleTimeout} {
			if d <= 0 || d > time.Minute {
				t.Errorf("%s is %v", name, d)
			}
		}

		if s.MaxHeaderBytes <= 0 || s.MaxHeaderBytes > 64<<10 {
			t.Errorf("MaxHeaderBytes is %d", s.MaxHeaderBytes)
		}

		s.IdleTimeout = 3 * time.Second // a minute is too long for a test
		server.Start()
		defer server.Close()

		c := dial(t, server.URL)
		answers := bufio.NewReader(c)
		for range 2 { // it is kept alive
			fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
			resp, err := http.ReadResponse(answers, nil)
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%v %v", resp, err)
			}

			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}

		t.Logf("closed after %v", cutOff(t, c, "", time.Hour, time.Minute))
	})

	t.Run("a_header_that_is_too_large_is_refused", func(t *testing.T) {
		t.Parallel()
		a := start(t, "a", "memory:", nil)
		c := dial(t, a.url)
		_, _ = io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 100<<10)+
			"\r\n\r\n")

		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Fatalf("%v %v", resp, err)
		}

		_ = resp.Body.Close()
	})
}

// TestAddressInUse starts a node on the address of another.
func TestAddressInUse(t *testing.T) {
	a := start(t, "a", "memory:", nil)
	address := strings.TrimPrefix(a.url, "http://")
	code, out := ends(t, command(t, nil, serveArgs(t, "b", "memory:", "--listen", address)...))
	if code != exitFailure || !strings.Contains(out, "address already in use") || !strings.Contains(out, "--listen") {
		t.Errorf("exit code %d:\n%s", code, out)
	}

	elsewhere := serveArgs(t, "b", "memory:", "--listen", "192.0.2.1:7468", "--insecure") // of no machine
	code, out = ends(t, command(t, nil, elsewhere...))
	if code != exitFailure || !strings.Contains(out, `listen "192.0.2.1:7468": `) ||
		!strings.Contains(out, "must be an address of this machine") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
