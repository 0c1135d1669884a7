package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/signed"
)

// testNode is a node with a server on the loopback.
type testNode struct {
	*node.Node
	t      *testing.T
	server *httptest.Server
}

func serve(t *testing.T, store driver.Store, id, token string, change ...func(*api.Options)) *testNode {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	n, err := node.New(node.Options{Config: regent.Cluster(), Election: "seat", ID: id,
		Addr: server.Listener.Addr().String(), Log: slog.New(slog.DiscardHandler),
		Open: func(context.Context) (driver.Store, error) { return store, nil }, Store: "memory:",
		Coordination: node.Coordination{Token: signed.NewSecret(token),
			Client: &http.Client{Transport: &http.Transport{}},
			Worker: true, DataDir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}

	stopping := make(chan struct{})
	opts := api.Options{Node: n, Log: slog.New(slog.DiscardHandler), Token: signed.NewSecret(token), Version: "test"}
	for _, f := range change {
		f(&opts)
	}

	server.Config = api.Server(validated(t, api.New(opts, stopping)), opts.Log)
	server.Start()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		close(stopping)
		cancel()

		if err := <-done; err != nil {
			t.Error(err)
		}
		server.Close()
	})

	return &testNode{n, t, server}
}

// becomes asks until the answer is as it should be.
func (f *testNode) becomes(path string, good func(map[string]any) bool) map[string]any {
	f.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()

	for limit := time.Now().Add(30 * time.Second); ; <-tick.C {
		_, body := f.ask("GET", path, "")
		if good(body) {
			return body
		}
		if time.Now().After(limit) {
			f.t.Fatalf("%s is %v", path, body)
		}
	}
}

// ask sends a request, and returns the code and the body.
func (f *testNode) ask(method, path, body string, header ...string) (int, map[string]any) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.server.URL+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}

	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}

	resp, err := f.server.Client().Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()

	b, _ := io.ReadAll(resp.Body)
	var out map[string]any
	if len(b) > 0 && json.Unmarshal(b, &out) != nil {
		out = map[string]any{"text": string(b)}
	}

	return resp.StatusCode, out
}

// post sends a verb that succeeds.
func (f *testNode) post(path, body string) {
	f.t.Helper()
	if got, answer := f.ask("POST", path, body); got != 200 {
		f.t.Errorf("%s %s: %d %v", path, body, got, answer)
	}
}

// until asks until the answer has the code.
func (f *testNode) until(path string, code int) map[string]any {
	f.t.Helper()

	for end := time.Now().Add(30 * time.Second); ; {
		got, body := f.ask("GET", path, "")
		if got == code {
			return body
		}
		if time.Now().After(end) {
			f.t.Fatalf("%s is %d %v, and not %d", path, got, body, code)
		}
	}
}

// metric returns a line of /metrics.
func (f *testNode) metric(name string) string {
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

// logBuffer is a log that tests read.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *logBuffer) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(b)
}

func (j *logBuffer) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

func (j *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }
