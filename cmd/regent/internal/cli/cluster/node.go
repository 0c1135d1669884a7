package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/cmd/regent/internal/plain"
)

const (
	maxAnswer = 64 << 20 // bytes of an answer
	pageSize  = 1000     // elections in one answer

	staleTimeout  = 2 * time.Second // how long a list may be older than what its node knows
	staleInterval = 200 * time.Millisecond

	// localTimeout is how long a node may take to say what it knows by itself. A node that is frozen accepts
	// connections all the same.
	localTimeout = 5 * time.Second
)

// Node asks a cluster through one of its nodes.
type Node struct {
	Base   *url.URL // scheme and host
	Token  string   // the cluster token; empty for none
	Client *http.Client
}

var _ Cluster = (*Node)(nil)

// Where implements [Cluster].
func (n *Node) Where() string { return "node " + n.Base.String() }

// Close implements [Cluster].
func (n *Node) Close() error {
	n.Client.CloseIdleConnections()
	return nil
}

// At returns a Node for another address of the same cluster.
func (n *Node) At(addr string) *Node {
	base := *n.Base
	base.Host = addr
	return &Node{Base: &base, Token: n.Token, Client: n.Client}
}

// Elections implements [Cluster]. A node may answer with a list that is a second old. If the node knows of a later term
// of its own election than the list shows, Elections asks again for a while.
func (n *Node) Elections(ctx context.Context) (Elections, error) {
	for again := time.Now().Add(staleTimeout); ; {
		status, err := n.LocalStatus(ctx)
		if err != nil {
			return Elections{}, err
		}
		all, err := n.list(ctx)
		if err != nil || !stale(all, status) || time.Now().After(again) {
			return all, err
		}

		select {
		case <-ctx.Done():
			return all, nil
		case <-time.After(staleInterval):
		}
	}
}

// stale reports whether a list is older than what its node knows.
func stale(all Elections, s Status) bool {
	for _, e := range all.Elections {
		if e.Name == s.Election {
			return e.Epoch < s.Epoch || e.Epoch == s.Epoch && (e.Leader != "" && s.Leader == "" || e.Paused != s.Paused)
		}
	}

	return s.Epoch > 0
}

// list asks for all pages of the elections.
func (n *Node) list(ctx context.Context) (Elections, error) {
	var all Elections
	after := ""
	for {
		var page Elections
		query := url.Values{"limit": {strconv.Itoa(pageSize)}, "candidates": {"1000"}, "after": {after}}
		if err := n.get(ctx, "/v1/elections?"+query.Encode(), &page); err != nil {
			return Elections{}, err
		}

		found := append(all.Elections, page.Elections...)
		all = page
		all.Elections = found
		if page.Next == "" {
			return all, nil
		}
		after = page.Next
	}
}

// Election implements [Cluster]. It asks for a page that begins with the election.
func (n *Node) Election(ctx context.Context, name string) (Election, error) {
	all, err := n.Elections(ctx)
	if err != nil {
		return Election{}, err
	}
	return find(all, name)
}

// Record implements [Cluster].
func (n *Node) Record(ctx context.Context, name string) (r Record, err error) {
	err = n.get(ctx, "/v1/elections/"+url.PathEscape(name), &r)
	return r, err
}

// History implements [Cluster].
func (n *Node) History(ctx context.Context, name string) (h History, err error) {
	err = n.get(ctx, "/v1/elections/"+url.PathEscape(name)+"/history", &h)
	return h, err
}

// Members implements [Cluster].
func (n *Node) Members(ctx context.Context) (m Members, err error) {
	err = n.get(ctx, "/v1/members", &m)
	return m, err
}

// Status implements [Cluster].
func (n *Node) Status(ctx context.Context) (s Status, err error) {
	err = n.get(ctx, "/v1/status", &s)
	return s, err
}

// LocalStatus returns the state of the node, which asks neither the leader nor the store for it.
func (n *Node) LocalStatus(ctx context.Context) (s Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()

	err = n.get(ctx, "/v1/status?local=1", &s)
	return s, err
}

// Frozen reports whether the node accepts a connection and does not answer. A node that cannot be connected to may be
// reachable for others.
func (n *Node) Frozen(ctx context.Context) bool {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	_, err := n.LocalStatus(ctx)
	return errors.Is(err, context.DeadlineExceeded) && connected.Load()
}

// Do implements [Cluster].
func (n *Node) Do(ctx context.Context, verb Verb, election string, epoch uint64, to string) error {
	path := "/v1/elections/" + url.PathEscape(election) + "/" + string(verb)
	return n.send(ctx, http.MethodPost, path, verbRequest{epoch, to}, nil)
}

// Polls implements [Cluster].
func (n *Node) Polls(ctx context.Context) ([]Poll, error) {
	var all polls
	err := n.get(ctx, "/v1/polls", &all)
	return all.Polls, err
}

// Poll implements [Cluster].
func (n *Node) Poll(ctx context.Context, name string) (p Poll, err error) {
	err = n.get(ctx, "/v1/polls/"+url.PathEscape(name), &p)
	return p, err
}

// RunPoll implements [Cluster].
func (n *Node) RunPoll(ctx context.Context, name string, epoch uint64) (r Run, err error) {
	err = n.send(ctx, http.MethodPost, "/v1/polls/"+url.PathEscape(name)+"/run", verbRequest{Epoch: epoch}, &r)
	return r, err
}

func (n *Node) get(ctx context.Context, path string, into any) error {
	return n.send(ctx, http.MethodGet, path, nil, into)
}

// send sends a request, and decodes the answer.
func (n *Node) send(ctx context.Context, method, path string, body, into any) error {
	resp, err := n.request(ctx, method, path, body, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()

	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return &unreachableError{n.Where() + " has broken off its answer", err}
	case resp.StatusCode >= 400:
		return n.failed(path, resp.StatusCode, data)
	case into == nil:
		return nil
	}

	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s answers %s with something else than Regent does: is the address right? %w",
			n.Where(), path, err)
	}
	return nil
}

// request sends a request.
func (n *Node) request(ctx context.Context, method, path string, body any, header http.Header) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(b)
	}

	r, err := http.NewRequestWithContext(ctx, method, n.Base.String()+path, content)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if n.Token != "" {
		r.Header.Set("Authorization", "Bearer "+n.Token)
	}

	began := time.Now()
	resp, err := n.Client.Do(r)
	if err != nil {
		var u *url.Error // it would repeat the address
		if errors.As(err, &u) {
			err = u.Err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v: %w", time.Since(began).Round(100*time.Millisecond), err)
		}
		return nil, &unreachableError{n.Where() + " does not answer", n.withoutAddress(err)}
	}

	return resp, nil
}

// withoutAddress returns an error in plain words that does not name the address of the node again.
func (n *Node) withoutAddress(err error) error {
	err = plain.Error(err)
	if text, again := strings.CutPrefix(err.Error(), "no connection to "+n.Base.Host+": "); again {
		return &nodeError{text, err}
	}
	if err == io.EOF {
		return &nodeError{"it has closed the connection without an answer", err}
	}
	return err
}

// nodeError is an error with a text of its own.
type nodeError struct {
	text string
	err  error
}

func (e *nodeError) Error() string { return e.text }

func (e *nodeError) Unwrap() error { return e.err }

// failed returns the error of an answer from 400 on.
func (n *Node) failed(path string, status int, data []byte) error {
	var f failure
	if json.Unmarshal(data, &f) != nil || f.Error == "" {
		if n.Base.Scheme == "http" && strings.Contains(string(data), "HTTP request to an HTTPS server") {
			return fmt.Errorf("%s speaks TLS: name it as https://%s, and with --tls-ca the authority that signed its "+
				"certificate", n.Where(), n.Base.Host)
		}
		text := strings.TrimSpace(string(data[:min(len(data), 200)]))
		return fmt.Errorf("%s answers %s with %d: %q", n.Where(), path, status, text)
	}

	switch status {
	case http.StatusNotFound:
		return notFoundError(f.Error)
	case http.StatusUnauthorized, http.StatusForbidden:
		advice := ": give the cluster token with --token-file or REGENT_TOKEN"
		if n.Token != "" {
			advice = ": check --token-file, REGENT_TOKEN_FILE and REGENT_TOKEN"
		}
		return &RefusedError{f.Code, f.Error + advice, f.Epoch}
	}

	return &RefusedError{f.Code, f.Error, f.Epoch}
}

// Duties returns the states of the duties of the node.
func (n *Node) Duties(ctx context.Context) ([]regent.DutyState, error) {
	var figures struct {
		Duties []regent.DutyState `json:"duties"`
	}
	err := n.get(ctx, "/v1/metrics", &figures)
	return figures.Duties, err
}

// Lease returns the lease and the takeover delay of the node.
func (n *Node) Lease(ctx context.Context) (lease, delay time.Duration, err error) {
	var figures api.Lease
	err = n.get(ctx, "/v1/metrics", &figures)
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	return ms(figures.LeaseDurationMs), ms(figures.TakeoverDelayMs), err
}
