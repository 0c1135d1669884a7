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

// stats answers with the figures of this node.
func (s *server) stats(w http.ResponseWriter, _ *http.Request) {
	f := Figures{
		Stats:  s.Node.Member.Stats(),
		Polls:  s.Node.Polls.Stats().Slots,
		Duties: s.Node.Member.Duties(),
	}
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

// status answers with the state of this node and, as the leader sees it, of the cluster. With local=1 it asks no other
// node: so the leader asks its members.
func (s *server) status(w http.ResponseWriter, r *http.Request) {
	election := s.Node.Election()
	v, seen := s.Node.Member.View(election)
	body := Status{
		Health: s.Node.Health(), Election: election, Since: v.Since,
		Paused: v.Paused, Next: v.Next, Version: s.Version,
	}

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

// Cluster is the state of the cluster, without its members.
type Cluster struct {
	Status  health.Status `json:"status"`
	Reasons []string      `json:"reasons"`
	Counts  health.Counts `json:"counts"`
}

// cluster asks the leader for the state of the cluster, with a short timeout.
func (s *server) cluster(ctx context.Context) Cluster {
	h := s.Node.Health()
	client, scheme := s.Node.Peers()

	if h.Role == node.Leader {
		return brief(s.Node.Cluster.Snapshot())
	}
	if why := unreachable(h, client); why != "" {
		return brief(health.NoCoordinator(nil, why))
	}

	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()

	var c health.Cluster
	if err := fetch(ctx, client, scheme+"://"+h.LeaderAddr+"/v1/members", h.Node, &c); err != nil {
		why := fmt.Sprintf("the leader, %s, cannot be reached at %s", h.Leader, h.LeaderAddr)
		return brief(health.NoCoordinator(nil, why))
	}

	return brief(c)
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
