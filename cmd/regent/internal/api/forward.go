package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/internal/signed"
)

const (
	// leaderTimeout is how long a leader may take to begin its answer to a forwarded request: the time that it may wait
	// for its polls, and a little more.
	leaderTimeout = pollsTimeout + 500*time.Millisecond

	// leaderRecheck is how often this node checks after leaderTimeout whether another member leads, where the answer
	// may take longer.
	leaderRecheck = 100 * time.Millisecond
)

// errSilent means that the leader has accepted a connection or a request, and has not begun to answer in time.
var errSilent = errors.New("no answer in time")

// forwarding is one request on its way to the leader.
type forwarding struct {
	*server
	leader    node.Health // as this node knew it when the request was forwarded
	request   *http.Request
	body      []byte
	connected atomic.Bool // from then on the leader may have received the request
	next      http.HandlerFunc
	otherwise fallback
}

// forward passes a request on to the leader. It removes the sender's own credentials: the leader's address comes from
// the store, and may be anybody's. If the sender has proved itself to this node, this node signs the request.
func (s *server) forward(w http.ResponseWriter, r *http.Request, h node.Health, next http.HandlerFunc,
	otherwise fallback) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}

	f := &forwarding{server: s, leader: h, request: r, body: body, next: next, otherwise: otherwise}
	client, scheme := s.Node.Peers()
	proxy := &httputil.ReverseProxy{
		Transport:      f.bounded(s.signing(client.Transport, h, proved(r), body)),
		Rewrite:        func(p *httputil.ProxyRequest) { f.rewrite(p, scheme) },
		ModifyResponse: signed.Refused,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, err error) { f.failed(w, err) },
	}

	// A little more than the leader itself may take, so that its answer comes first.
	ctx, cancel := context.WithTimeout(r.Context(), pollsTimeout+requestTimeout+2*time.Second)
	defer cancel()

	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// rewrite turns the request into the one that the leader gets.
func (f *forwarding) rewrite(p *httputil.ProxyRequest, scheme string) {
	p.SetURL(&url.URL{Scheme: scheme, Host: f.leader.LeaderAddr})
	p.Out.Header.Set(forwarded, f.leader.Node)

	for _, name := range []string{"Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"} {
		p.Out.Header.Del(name) // this node has checked them; to the leader they name another host
	}

	for _, name := range []string{"Authorization", "Cookie"} {
		p.Out.Header.Del(name)
	}

	p.Out.Body = io.NopCloser(bytes.NewReader(f.body))
	p.Out.ContentLength = int64(len(f.body))
}

// bounded returns a transport that fails with errSilent when the answer does not begin in time.
func (f *forwarding) bounded(by http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancelCause(r.Context())
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { f.connected.Store(true) },
		})
		answered := make(chan struct{})
		go f.watch(ctx, answered, cancel)

		resp, err := by.RoundTrip(r.WithContext(ctx))
		close(answered)

		if err != nil && errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}

		return resp, err
	})
}

// watch cancels a request that the leader has not begun to answer in time. The answer to a poll that runs now takes as
// long as the poll: that request is cancelled once another member leads.
func (f *forwarding) watch(ctx context.Context, answered <-chan struct{}, cancel context.CancelCauseFunc) {
	timer := time.NewTimer(leaderTimeout)
	defer timer.Stop()

	for {
		select {
		case <-answered:
			return
		case <-ctx.Done():
			return
		case <-timer.C:
		}

		if !f.takesLong() || !f.connected.Load() || f.deposed() {
			cancel(errSilent)
			return
		}

		timer.Reset(leaderRecheck)
	}
}

// takesLong reports whether the leader answers only when a poll has run.
func (f *forwarding) takesLong() bool {
	return f.request.Method == http.MethodPost && strings.HasSuffix(f.request.URL.Path, "/run")
}

// deposed reports whether another member leads than the one that the request was forwarded to.
func (f *forwarding) deposed() bool {
	now := f.Node.Health()
	return now.Leader != f.leader.Leader || now.LeaderAddr != f.leader.LeaderAddr
}

// failed answers a request that the leader has not answered. It does not repeat a write that the leader may have
// received: the outcome of that write is unknown.
func (f *forwarding) failed(w http.ResponseWriter, err error) {
	leader := f.leader.Leader
	addr := f.leader.LeaderAddr

	read := f.request.Method == http.MethodGet || f.request.Method == http.MethodHead
	switch {
	case errors.Is(err, signed.ErrOld):
		fail(w, http.StatusBadGateway, CodeLeader,
			fmt.Sprintf("the leader, %s, has refused the request: %v", leader, err))
	case !f.connected.Load():
		f.Log.Warn("leader cannot be reached", "leader", leader, "addr", addr, "error", err)
		f.instead(w, fmt.Sprintf("the leader, %s, cannot be reached at %s", leader, addr))
	case read:
		f.Log.Warn("leader does not answer", "leader", leader, "addr", addr, "error", err)
		f.instead(w, fmt.Sprintf("the leader, %s, has not answered at %s: %v", leader, addr, err))
	default:
		status, code := http.StatusBadGateway, CodeLeader
		if errors.Is(err, errSilent) || errors.Is(err, context.DeadlineExceeded) {
			status, code = http.StatusGatewayTimeout, CodeTimeout
		}

		f.Log.Warn("leader has not answered a write", "leader", leader, "addr", addr, "error", err)
		fail(w, status, code, fmt.Sprintf("the leader, %s, has not answered at %s: %v: the outcome is unknown, "+
			"it may have been done; check before you send it again", leader, addr, err))
	}
}

// instead answers a request that the leader has not received, or that may be answered twice. If this node leads by now,
// it handles the request itself.
func (f *forwarding) instead(w http.ResponseWriter, why string) {
	r := f.request.WithContext(f.request.Context())
	r.Body = io.NopCloser(bytes.NewReader(f.body))

	if f.Node.Health().Role == node.Leader {
		f.next(w, r)
		return
	}

	f.otherwise(w, r, why)
}

// transport is a function that is an [http.RoundTripper].
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// signing returns a transport that signs requests with this body to the leader, if their sender has proved itself.
func (s *server) signing(by http.RoundTripper, h node.Health, proved bool, body []byte) http.RoundTripper {
	if by == nil {
		by = http.DefaultTransport
	}
	if !proved {
		return by
	}

	return transport(func(r *http.Request) (*http.Response, error) {
		return s.Node.Signer().Do(by.RoundTrip, r, h.Leader, h.LeaderAddr, body)
	})
}
