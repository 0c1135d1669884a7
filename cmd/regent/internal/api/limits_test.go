package api_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/memstore"
)

func TestStreamLimit(t *testing.T) {
	var log logBuffer
	a := serve(t, memstore.New(), "a", "", func(o *api.Options) {
		o.Log = log.logger()
		o.Limits = api.NewLimits(o.Log)
		o.Limits.Streams = 2
	})
	a.until("/leader", 200)
	first, second := a.stream(t.Context()), a.stream(t.Context())
	defer second.Body.Close()

	third := a.stream(t.Context())
	body, _ := io.ReadAll(third.Body)
	third.Body.Close()

	if first.StatusCode != 200 || second.StatusCode != 200 || third.StatusCode != 503 ||
		!strings.Contains(string(body), "2 event streams, which is its limit") {
		t.Errorf("%d, %d, %d %s", first.StatusCode, second.StatusCode, third.StatusCode, body)
	}

	if got := a.metric("regent_event_streams") + " " + a.metric("regent_event_streams_refused_total"); got != "2 1" {
		t.Errorf("metrics: %s", got)
	}
	if !strings.Contains(log.String(), "event streams are refused") {
		t.Errorf("log: %s", log.String())
	}

	first.Body.Close()
	eventually(t, "room again", func() bool {
		again := a.stream(t.Context())
		defer again.Body.Close()
		return again.StatusCode == 200
	})
}

func TestConnectionLimit(t *testing.T) {
	var log logBuffer
	limits := api.NewLimits(log.logger())
	limits.Connections = 8
	release := make(chan struct{})
	server := api.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
		}
		_, _ = io.WriteString(w, "hello")
	}), log.logger())
	s := httptest.NewUnstartedServer(nil)
	s.Listener = limits.Attach(server, s.Listener)
	s.Config = server
	s.Start()
	t.Cleanup(func() {
		close(release)
		s.Close()
	})
	dial := func(text string) net.Conn {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() { conn.Close() })
		fmt.Fprint(conn, text)
		return conn
	}

	var silent []net.Conn
	for range 40 { // say nothing, dribble a header, or send a request that takes long
		silent = append(silent, dial(""), dial("GET / HTTP/1.1\r\nHost: x\r\nX-"),
			dial("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	}

	for range 20 {
		conn := dial("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		if b, err := io.ReadAll(conn); err != nil || !strings.Contains(string(b), "hello") {
			t.Fatalf("a probe got %q, %v", b, err)
		}
	}

	closed := 0
	for _, c := range silent {
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err != nil && !strings.Contains(err.Error(), "timeout") {
			closed++
		}
	}

	if open := len(silent) - closed; open > limits.Connections {
		t.Errorf("%d connections stay open, the limit is %d", open, limits.Connections)
	}
	if !strings.Contains(log.String(), "more than 8 connections") || strings.Count(log.String(), "more than 8") != 1 {
		t.Errorf("log: %s", log.String())
	}
}
