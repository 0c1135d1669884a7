package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/elections"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/internal/millis"
)

// Status is the answer of /v1/status.
type Status struct {
	node.Health
	Election string         `json:"election"`
	Since    time.Time      `json:"since,omitzero"`
	Paused   bool           `json:"paused"`
	Next     string         `json:"next,omitempty"`
	Why      *elections.Why `json:"why,omitempty"`
	Cluster  *Cluster       `json:"cluster,omitempty"` // as the leader sees it; left out with local=1
	Version  string         `json:"version"`

	HeartbeatP50Ms float64 `json:"heartbeatP50Ms,omitempty"` // of its own heartbeats; left out with fewer than 10
	HeartbeatP99Ms float64 `json:"heartbeatP99Ms,omitempty"`
}

// status answers with the state of this node and, as the leader sees it, of the cluster. With local=1 it asks no other
// node: so the leader asks its members.
func (s *server) status(w http.ResponseWriter, r *http.Request) {
	h, v, seen := s.Node.Observe()
	body := Status{
		Health: h, Election: s.Node.Election(), Since: v.Since,
		Paused: v.Paused, Next: v.Next, Version: s.Version,
	}

	stats := s.Node.Member.Stats()
	body.HeartbeatP50Ms = millis.Of(stats.HeartbeatLatencyP50)
	body.HeartbeatP99Ms = millis.Of(stats.HeartbeatLatencyP99)

	if seen {
		v.Known = max(v.Known, body.Epoch) // the node may remember more than its member
		body.Why = elections.Explain(v)
	}

	if r.URL.Query().Get("local") == "" {
		c := s.cluster(r.Context())
		body.Cluster = &c
	}

	answer(w, http.StatusOK, body)
}

// Cluster is the state of the cluster, without its members.
type Cluster struct {
	Status  health.Status `json:"status"`
	Reasons []string      `json:"reasons"`
	Counts  health.Counts `json:"counts"`
}

// cluster returns the state of the cluster as its leader sees it.
func (s *server) cluster(ctx context.Context) Cluster {
	c, why := s.leaderView(ctx)
	if why != "" {
		return brief(health.NoCoordinator(nil, why))
	}
	return brief(c)
}

// leaderView asks the leader for the state of the cluster, with a short timeout. If it cannot, it returns why.
func (s *server) leaderView(ctx context.Context) (c health.Cluster, why string) {
	h := s.Node.Health()
	client, scheme := s.Node.Peers()

	if h.Role == node.Leader {
		return s.Node.Cluster.Snapshot(), ""
	}
	if why := unreachable(h, client); why != "" {
		return c, why
	}

	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()

	if err := fetch(ctx, client, scheme+"://"+h.LeaderAddr+"/v1/members", h.Node, &c); err != nil {
		return c, fmt.Sprintf("the leader, %s, cannot be reached at %s", h.Leader, h.LeaderAddr)
	}

	return c, ""
}

// brief leaves the members out.
func brief(c health.Cluster) Cluster {
	if c.Reasons == nil {
		c.Reasons = []string{}
	}
	return Cluster{c.Status, c.Reasons, c.Counts}
}

// fetch gets a JSON answer from another node.
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
