package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/hostport"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/internal/signed"
)

// forwarded says that a request comes from a node that does not lead. It is not passed on again: views of who leads may differ for a moment.
const forwarded = "Regent-Forwarded"

// onLeader has a request answered by the leader, whichever node it came to. Where there is none, or it cannot be reached, otherwise answers.
func (s *server) onLeader(next http.HandlerFunc, otherwise func(w http.ResponseWriter, r *http.Request, why string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := s.Node.Health()
		client, scheme := s.Node.Peers()
		switch {
		case h.Role == node.Leader:
			next(w, r)
		case h.Leader == "":
			otherwise(w, r, "nobody leads")
		case h.LeaderAddr == "":
			otherwise(w, r, noAddress(h))
		case !hostport.Valid(h.LeaderAddr):
			otherwise(w, r, fmt.Sprintf("the address of %s, which leads, is no host:port: %.100q", h.Leader, h.LeaderAddr))
		case r.Header.Get(forwarded) != "":
			otherwise(w, r, fmt.Sprintf("%s leads, as far as %s knows", h.Leader, h.Node))
		case client == nil:
			otherwise(w, r, "this node does not ask others")
		case scheme == "https" && r.Method != http.MethodGet && !vouched(r):
			// This node would vouch for it with its own certificate.
			answer(w, http.StatusForbidden, failure{Error: "a write that proves nothing is not passed on to the leader"})
		default:
			s.forward(w, r, h, otherwise)
		}
	}
}

// forward passes a request on to the leader. The sender's own credentials stay here: the leader's address comes from the
// store, and may be anybody's. A sender that has proved itself to this node is vouched for by this node's signature.
func (s *server) forward(w http.ResponseWriter, r *http.Request, h node.Health, otherwise func(w http.ResponseWriter, r *http.Request, why string)) {
	client, scheme := s.Node.Peers()
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	proxy := &httputil.ReverseProxy{
		Transport: s.signing(client.Transport, h, vouched(r), body),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: scheme, Host: h.LeaderAddr})
			p.Out.Header.Set(forwarded, h.Node)
			for _, name := range []string{"Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"} {
				p.Out.Header.Del(name) // this node has looked at them; to the leader they name another host
			}
			for _, name := range []string{"Authorization", "Cookie"} {
				p.Out.Header.Del(name)
			}
			p.Out.Body, p.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		},
		ModifyResponse: signed.Refused,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			var dial *net.OpError
			switch {
			case errors.Is(err, signed.ErrOld):
				answer(w, http.StatusBadGateway, failure{Error: fmt.Sprintf("the leader, %s, has refused the request: %v", h.Leader, err)})
			case errors.As(err, &dial) && dial.Op == "dial":
				s.Log.Warn("leader cannot be reached", "leader", h.Leader, "addr", h.LeaderAddr, "error", err)
				otherwise(w, r, fmt.Sprintf("the leader, %s, cannot be reached at %s", h.Leader, h.LeaderAddr))
			default: // a client that has left hears nothing of it
				answer(w, http.StatusBadGateway, failure{Error: fmt.Sprintf("the leader, %s, has not answered: what was asked for may have been done", h.Leader)})
			}
		},
	}
	// A little more than the leader itself may take, so that its answer comes first.
	ctx, cancel := context.WithTimeout(r.Context(), newcomer+patience+2*time.Second)
	defer cancel()
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// transport is a function that sends requests.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// signing returns a transport that signs requests with this body to the leader, if this node vouches for them.
func (s *server) signing(by http.RoundTripper, h node.Health, vouches bool, body []byte) http.RoundTripper {
	if by == nil {
		by = http.DefaultTransport
	}
	if !vouches {
		return by
	}
	return transport(func(r *http.Request) (*http.Response, error) {
		return s.Node.Signer().Do(by.RoundTrip, r, h.Leader, h.LeaderAddr, body)
	})
}

// noAddress says why a leader cannot be asked that leads without a listener, such as 'regent run'.
func noAddress(h node.Health) string {
	return fmt.Sprintf("%s leads, and publishes no address: it is no node that could be asked", h.Leader)
}

// nobody answers what only a leader could.
func nobody(w http.ResponseWriter, _ *http.Request, why string) {
	w.Header().Set("Retry-After", "1")
	answer(w, http.StatusServiceUnavailable, failure{Error: "no coordinator: " + why})
}

// members is the cluster as its leader sees it; or, if there is none, as the store shows it.
func (s *server) members() http.HandlerFunc {
	return s.onLeader(func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusOK, s.Node.Cluster.Snapshot())
	}, func(w http.ResponseWriter, r *http.Request, why string) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		all, err := s.Node.Member.Members(ctx)
		if err != nil {
			answer(w, http.StatusBadGateway, failure{Error: err.Error()})
			return
		}
		answer(w, http.StatusOK, health.NoCoordinator(all, why))
	})
}

// Cluster is how the cluster is, in short.
type Cluster struct {
	Status  health.Status `json:"status"`
	Reasons []string      `json:"reasons"`
	Counts  health.Counts `json:"counts"`
}

// cluster asks the leader how the cluster is, but not for long.
func (s *server) cluster(ctx context.Context) Cluster {
	h := s.Node.Health()
	client, scheme := s.Node.Peers()
	switch {
	case h.Role == node.Leader:
		return brief(s.Node.Cluster.Snapshot())
	case h.Leader == "":
		return brief(health.NoCoordinator(nil, "nobody leads"))
	case h.LeaderAddr == "":
		return brief(health.NoCoordinator(nil, noAddress(h)))
	case !hostport.Valid(h.LeaderAddr):
		return brief(health.NoCoordinator(nil, fmt.Sprintf("the address of %s, which leads, is no host:port: %.100q", h.Leader, h.LeaderAddr)))
	case client == nil:
		return brief(health.NoCoordinator(nil, "this node does not ask others"))
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var c health.Cluster
	if err := fetch(ctx, client, scheme+"://"+h.LeaderAddr+"/v1/members", h.Node, &c); err != nil {
		return brief(health.NoCoordinator(nil, fmt.Sprintf("the leader, %s, cannot be reached at %s", h.Leader, h.LeaderAddr)))
	}
	return brief(c)
}

func brief(c health.Cluster) Cluster {
	if c.Reasons == nil {
		c.Reasons = []string{}
	}
	return Cluster{c.Status, c.Reasons, c.Counts}
}

// fetch reads a JSON answer of another node.
func fetch(ctx context.Context, client *http.Client, where, node string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return err
	}
	r.Header.Set(forwarded, node)
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", where, resp.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(into)
}
