package api_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/memstore"
)

// journal is a log that tests read.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// metric returns a line of /metrics.
func (f *face) metric(name string) string {
	f.t.Helper()
	_, body := f.ask("GET", "/metrics", "")
	for line := range strings.Lines(fmt.Sprint(body["text"])) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "none"
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, good func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !good(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

func TestStreamLimit(t *testing.T) {
	var log journal
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
	if first.StatusCode != 200 || second.StatusCode != 200 || third.StatusCode != 503 || !strings.Contains(string(body), "2 event streams, which is its limit") {
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

func TestSlowSubscriber(t *testing.T) {
	var log journal
	a := serve(t, memstore.New(), "a", "", func(o *api.Options) { o.Log = log.logger() })
	a.until("/leader", 200)
	conn, err := net.Dial("tcp", a.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(1 << 10)
	fmt.Fprint(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	eventually(t, "the stream begins", func() bool { return a.metric("regent_event_streams") == "1" })

	// More than the buffers of both sides hold, at once: it is not read.
	large := strings.Repeat("x", 64<<10)
	for i := range uint64(400) {
		a.Hub.Send(regent.Event{Seq: 1_000_000 + i, Kind: "test:large", Metadata: map[string]string{"x": large}})
	}
	eventually(t, "it is counted", func() bool { return a.metric("regent_event_subscribers_cut_off_total") == "1" })
	eventually(t, "it is logged", func() bool { return strings.Contains(log.String(), "event subscriber was too slow and is cut off") })
}

func TestLastEventID(t *testing.T) {
	store := memstore.New()
	a := serve(t, store, "a", "")
	a.until("/leader", 200)
	read := func(lines int, id string) string {
		resp := a.stream(t.Context(), "Last-Event-ID", id)
		defer resp.Body.Close()
		if resp.StatusCode != 200 {
			b, _ := io.ReadAll(resp.Body)
			return string(b)
		}
		var text strings.Builder
		for in := bufio.NewScanner(resp.Body); lines > 0 && in.Scan(); lines-- {
			text.WriteString(in.Text() + "\n")
		}
		return text.String()
	}
	begin := read(6, "")
	var id string
	for line := range strings.Lines(begin) {
		if rest, ok := strings.CutPrefix(line, "id: "); ok {
			id = strings.TrimSpace(rest)
			break
		}
	}
	if run, seq, _ := strings.Cut(id, "-"); len(run) != 13 || seq != "1" {
		t.Fatalf("the first ID is %q in %s", id, begin)
	}

	t.Run("of_this_run_goes_on_after_it", func(t *testing.T) {
		if got := read(3, id); strings.Contains(got, "stream:gap") || !strings.Contains(got, strings.TrimSuffix(id, "1")+"2\n") {
			t.Errorf("got %s", got)
		}
	})
	t.Run("of_an_earlier_run_skips_nothing_and_shows_the_gap", func(t *testing.T) {
		for _, other := range []string{"AAAAAAAAAAAAA-3", "3"} {
			if got := read(6, other); !strings.Contains(got, "event: stream:gap\n") || !strings.Contains(got, "id: "+id+"\n") {
				t.Errorf("%s: got %s", other, got)
			}
		}
	})
	t.Run("that_is_none_is_refused", func(t *testing.T) {
		if got := read(3, "x"); !strings.Contains(got, `Last-Event-ID \"x\": must be the ID of an event`) {
			t.Errorf("got %s", got)
		}
	})
}

func TestConnectionLimit(t *testing.T) {
	var log journal
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
	t.Cleanup(func() { close(release); s.Close() })

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
		silent = append(silent, dial(""), dial("GET / HTTP/1.1\r\nHost: x\r\nX-"), dial("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"))
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
