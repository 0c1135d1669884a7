package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/hostport"
	"github.com/regentd/regent/cmd/regent/internal/node"
)

// forwarded says that a request comes from a node that does not lead. It is not passed on again: views of who leads may differ for a moment.
const forwarded = "Regent-Forwarded"

// fallback answers a request in place of a leader, and is told why there is none that answers.
type fallback func(w http.ResponseWriter, r *http.Request, why string)

// onLeader has a request answered by the leader, whichever node it came to. Where there is none, or it cannot be reached,
// otherwise answers.
func (s *server) onLeader(next http.HandlerFunc, otherwise fallback) http.HandlerFunc {
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
			s.forward(w, r, h, next, otherwise)
		}
	}
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
