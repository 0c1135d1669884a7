package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/hostport"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/work"
)

// Figures is the answer of /v1/metrics.
type Figures struct {
	regent.Stats
	Tasks  *work.WorkerStats  `json:"tasks,omitempty"` // as a worker
	Polls  map[string]uint64  `json:"polls"`           // as their leader: slots by outcome
	Duties []regent.DutyState `json:"duties,omitempty"`
}

func (s *server) stats(w http.ResponseWriter, _ *http.Request) {
	f := Figures{Stats: s.Node.Member.Stats(), Polls: s.Node.Polls.Stats().Slots, Duties: s.Node.Member.Duties()}
	f.EpochDriftEvents = s.Node.Drifts()
	if s.Node.Worker != nil {
		stats := s.Node.Worker.Stats()
		f.Tasks = &stats
	}
	answer(w, http.StatusOK, f)
}

// Status is the answer of /v1/status.
type Status struct {
	node.Health
	Election string      `json:"election"`
	Since    time.Time   `json:"since,omitzero"`
	Paused   bool        `json:"paused"`
	Next     string      `json:"next,omitempty"`
	Why      *WhyLeading `json:"why,omitempty"`
	Cluster  *Cluster    `json:"cluster,omitempty"` // as the leader sees it; left out if only this node is asked about
	Version  string      `json:"version"`
}

// status is how the node is, and how the cluster is, which it asks the leader for, unless the query says local=1: so the leader asks its members.
func (s *server) status(w http.ResponseWriter, r *http.Request) {
	v, seen := s.Node.Member.View(s.Node.Election())
	body := Status{Health: s.Node.Health(), Election: s.Node.Election(), Since: v.Since, Paused: v.Paused, Next: v.Next, Version: s.Version}
	if seen {
		v.Known = max(v.Known, body.Epoch) // the node may remember more than its member
		body.Why = why(v)
	}
	if r.URL.Query().Get("local") == "" {
		c := s.cluster(r.Context())
		body.Cluster = &c
	}
	answer(w, http.StatusOK, body)
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
