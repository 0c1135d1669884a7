package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// s3Log is a proxy before an S3 server. It records every connection and every request as the server gets them, and can
// cut nodes off.
type s3Log struct {
	t  *testing.T
	at string

	mu     sync.Mutex
	dialed []time.Time // when connections came
	all    []s3Request
	claims []s3Request              // applied writes of registers that are no member's, by which somebody holds them
	cuts   map[string]chan struct{} // closed when the node reaches the server again
}

// s3Request is one request, and its answer.
type s3Request struct {
	node   string // whose variable AWS_SDK_UA_APP_ID says so
	method string
	key    string // empty for a list
	dialed time.Time
	came   time.Time
	done   time.Time // zero while there is no answer
	status int
	record s3Record // of a write
	epoch  uint64   // of a write by a program: its metadata say so
}

// s3Record is what the log reads of a register that is written.
type s3Record struct {
	Epoch  uint64 `json:"epoch"`
	Holder string `json:"holder"`
}

type dialedKey struct{}

// log starts a proxy before the server.
func (s *s3Server) logged(t *testing.T) *s3Log {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	l := &s3Log{t: t, at: listener.Addr().String(), cuts: map[string]chan struct{}{}}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256, IdleConnTimeout: 5 * time.Second}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: s.at})
			r.Out.Host = r.In.Host // it is part of the signature
		},
		Transport:    transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}

	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.serve(forward, w, r) }),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			now := time.Now()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.dialed = append(l.dialed, now)
			return context.WithValue(ctx, dialedKey{}, now)
		},
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		l.healAll()
		_ = server.Close()
		transport.CloseIdleConnections()
	})

	return l
}

func (l *s3Log) address(prefix string) string { return s3Address(l.at, prefix) }

var s3App = regexp.MustCompile(` app/(\S+)`)

// serve records a request and forwards it.
func (l *s3Log) serve(forward http.Handler, w http.ResponseWriter, r *http.Request) {
	in := s3Request{method: r.Method, came: time.Now()}
	in.dialed, _ = r.Context().Value(dialedKey{}).(time.Time)
	in.key = strings.Trim(strings.TrimPrefix(r.URL.Path, "/bucket"), "/")
	if m := s3App.FindStringSubmatch(r.UserAgent()); m != nil {
		in.node = m[1]
	}

	in.epoch, _ = strconv.ParseUint(r.Header.Get("X-Amz-Meta-Epoch"), 10, 64)

	if r.Method == http.MethodPut {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		_ = json.Unmarshal(body, &in.record) // objects of the race are no records
		r.Body = io.NopCloser(bytes.NewReader(body))
	}

	l.mu.Lock()
	cut := l.cuts[in.node]
	k := len(l.all)
	l.all = append(l.all, in)
	l.mu.Unlock()

	if cut != nil { // the request is lost, and nobody says so
		select {
		case <-cut:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}

	answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	forward.ServeHTTP(answer, r)

	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[k].done = time.Now()
	l.all[k].status = answer.status
	if r := l.all[k]; r.method == http.MethodPut && r.status == http.StatusOK && r.record.Holder != "" &&
		!strings.Contains(r.key, "/regent/member/") {
		l.claims = append(l.claims, r)
	}
}

// statusWriter keeps the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// cut loses all requests of a node from now on.
func (l *s3Log) cut(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cuts[node] = make(chan struct{})
}

// heal lets the requests of a node through again.
func (l *s3Log) heal(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cut := l.cuts[node]; cut != nil {
		close(cut)
		delete(l.cuts, node)
	}
}

func (l *s3Log) healAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for node, cut := range l.cuts {
		close(cut)
		delete(l.cuts, node)
	}
}

// requests returns the requests so far that are as is wants them, in the order in which they came.
func (l *s3Log) requests(is func(s3Request) bool) []s3Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	var some []s3Request
	for _, r := range l.all {
		if is(r) {
			some = append(some, r)
		}
	}

	return some
}

// of returns all requests of a node from a time on.
func (l *s3Log) of(node string, from time.Time) []s3Request {
	return l.requests(func(r s3Request) bool { return r.node == node && !r.came.Before(from) })
}

// firstDial waits for the first connection after a time, and returns when it came.
func (l *s3Log) firstDial(after time.Time) time.Time {
	l.t.Helper()
	var first time.Time
	waitFor(l.t, "somebody connects", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		i := slices.IndexFunc(l.dialed, func(at time.Time) bool { return at.After(after) })
		if i >= 0 {
			first = l.dialed[i]
		}
		return i >= 0
	})
	return first
}

// terms returns the writes by which terms of an election began, as the server has applied them.
func (l *s3Log) terms(election string) []s3Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	var newest uint64
	var terms []s3Request
	for _, r := range l.claims { // far fewer than all requests of a large fleet
		if strings.HasSuffix(r.key, "/"+election+".json") && r.record.Epoch > newest {
			newest = r.record.Epoch
			terms = append(terms, r)
		}
	}

	return terms
}

// heartbeats returns the applied writes of the member register of a node.
func (l *s3Log) heartbeats(node string) []s3Request {
	return l.requests(func(r s3Request) bool {
		return r.method == http.MethodPut && r.status == http.StatusOK && r.record.Holder != "" &&
			strings.HasSuffix(r.key, "/regent/member/"+node+".json")
	})
}

// seconds counts all requests of each second from a time on.
func (l *s3Log) seconds(from time.Time, n int) []int {
	counts := make([]int, n)
	for _, r := range l.requests(func(s3Request) bool { return true }) {
		if k := int(r.came.Sub(from) / time.Second); !r.came.Before(from) && k < n {
			counts[k]++
		}
	}
	return counts
}

// kinds counts the requests of a time that are as is wants them, by what a bill calls them.
func (l *s3Log) kinds(from, to time.Time, is func(s3Request) bool) map[string]int {
	counts := map[string]int{}
	for _, r := range l.requests(func(r s3Request) bool { return !r.came.Before(from) && r.came.Before(to) && is(r) }) {
		kind := strings.ToLower(r.method)
		if kind == "get" && r.key == "" {
			kind = "list"
		}
		counts[kind]++
	}
	return counts
}

// story returns the requests of a node in a time, as text.
func (l *s3Log) story(node string, from, to time.Time) []string {
	var all []string
	for _, r := range l.of(node, from) {
		if r.came.Before(to) {
			took := r.done.Sub(r.came)
			all = append(all, fmt.Sprintf("%v %s %s %d in %v", r.came.Sub(from).Round(time.Millisecond), r.method,
				r.key, r.status, took.Round(time.Millisecond)))
		}
	}
	return all
}

// purposes counts the requests of a time by their method and what they are about.
func (l *s3Log) purposes(from, to time.Time) map[string]int {
	counts := map[string]int{}
	for _, r := range l.requests(func(r s3Request) bool { return !r.came.Before(from) && r.came.Before(to) }) {
		what := "other"
		switch {
		case r.key == "":
			what = "list"
		case strings.Contains(r.key, "/!probe/"):
			what = "probe"
		case strings.HasSuffix(r.key, "/regent/member/"+r.node+".json"):
			what = "own register"
		case strings.Contains(r.key, "/regent/member/"):
			what = "other member"
		case strings.HasSuffix(r.key, "/coordinator.json"):
			what = "election"
		}
		counts[r.method+" "+what]++
	}
	return counts
}

// spread returns an error if some second had more than three times the mean of all requests, and false if the server
// stood still.
func (l *s3Log) spread(from time.Time, n int) (counted bool, err error) {
	counts := l.seconds(from, n)
	sum := 0
	for _, c := range counts {
		sum += c
	}

	mean := float64(sum) / float64(n)
	top := slices.Max(counts)
	l.t.Logf("%d requests, %.1f a second, at most %d (%.1f times the mean): %v; %v", sum, mean, top, float64(top)/mean,
		counts,
		l.kinds(from, from.Add(time.Duration(n)*time.Second), func(s3Request) bool { return true }))
	busiest := from.Add(time.Duration(slices.Index(counts, top)) * time.Second)
	l.t.Logf("the busiest second: %v", l.purposes(busiest, busiest.Add(time.Second)))
	if slices.Contains(counts[n/2:], 0) {
		l.t.Log("the server stood still: this does not count")
		return false, nil
	}
	if float64(top) > 3*mean {
		return true, fmt.Errorf("%d requests in second %d, the mean is %.1f", top, slices.Index(counts, top), mean)
	}
	return true, nil
}
