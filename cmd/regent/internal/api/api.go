// Package api is a node's HTTP face: how it is, who leads, what happens, and the verbs that ask a leader for something. Reads never ask the
// store unless their answer is in it; health and role are told from what the node knows.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/signed"
	"github.com/regentd/regent/work"
)

// Options is what the face needs to know.
type Options struct {
	Node    *node.Node
	Log     *slog.Logger
	Token   *signed.Secret // that write verbs and streams must prove; nil for none
	Guarded bool           // writes need a proof, even if no token is set: a certificate
	Hosts   []string       // names under which the node may be asked, besides addresses and localhost
	Version string
	Limits  *Limits // of streams and connections; those of NewLimits if nil
}

// maxBody is the largest body that a request may have.
const maxBody = 64 << 10

// tasks is where a worker takes tasks, with a limit of its own for their size.
const tasks = "/v1/tasks"

// patience is how long a request that asks the store, or a leader, may take.
const patience = 30 * time.Second

type server struct {
	Options
	stopping <-chan struct{}
	verifier *signed.Verifier
}

// New returns the handler of a node. Streams end when stopping is closed.
func New(opts Options, stopping <-chan struct{}) http.Handler {
	if opts.Limits == nil {
		opts.Limits = NewLimits(opts.Log)
	}
	s := &server{Options: opts, stopping: stopping, verifier: signed.NewVerifier(opts.Token, opts.Node.Member.ID, opts.Node.Member.Addr)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /healthz", s.readyz)
	mux.HandleFunc("GET /leader", s.role(node.Leader))
	mux.HandleFunc("GET /standby", s.role(node.Standby))
	mux.Handle("GET /metrics", s.metrics())
	mux.HandleFunc("GET /v1/metrics", s.stats)
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("GET /v1/elections/{election}", s.election)
	mux.HandleFunc("GET /v1/elections/{election}/history", s.history)
	mux.HandleFunc("GET /v1/members", s.members())
	s.servePolls(mux)
	if opts.Node.Worker != nil {
		mux.Handle("POST "+tasks, s.fromMembers(opts.Node.Worker))
		mux.Handle("POST "+tasks+"/results", s.fromMembers(opts.Node.Worker))
	}
	mux.Handle("GET /v1/events", s.readers(s.events))
	mux.Handle("POST /v1/elections/{election}/handoff", s.verb(func(ctx context.Context, m *regent.Member, election string, b request) error {
		return m.HandOff(ctx, election, b.To, regent.AtEpoch(*b.Epoch))
	}))
	mux.Handle("POST /v1/elections/{election}/step-down", s.verb(func(ctx context.Context, m *regent.Member, election string, b request) error {
		return m.StepDown(ctx, election, regent.AtEpoch(*b.Epoch))
	}))
	mux.Handle("POST /v1/elections/{election}/pause", s.verb(func(ctx context.Context, m *regent.Member, election string, b request) error {
		return m.Pause(ctx, election, regent.AtEpoch(*b.Epoch))
	}))
	mux.Handle("POST /v1/elections/{election}/resume", s.verb(func(ctx context.Context, m *regent.Member, election string, b request) error {
		return m.Resume(ctx, election, regent.AtEpoch(*b.Epoch))
	}))
	return s.protect(mux)
}

// Server returns an HTTP server with every limit set.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      patience + 10*time.Second, // a stream moves its own
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// failure is the body of every answer that is an error.
type failure struct {
	Error string `json:"error"`
	Epoch uint64 `json:"epoch,omitempty"` // the current one, where the one given has passed
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(body) // the client has gone, then
}

func (s *server) livez(w http.ResponseWriter, _ *http.Request) {
	if err := s.Node.Live(); err != nil {
		answer(w, http.StatusServiceUnavailable, failure{Error: err.Error()})
		return
	}
	answer(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz is 200 for a leader and for a standby that can read and write the store: a node that is ready only while it leads makes rollouts hang.
func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	h := s.Node.Health()
	code := http.StatusOK
	blocked := s.Node.Member.Blocked() != ""
	if !h.Store.Reachable || !h.Store.Writable || h.Role == node.Starting || h.Role == node.Unknown || blocked {
		code = http.StatusServiceUnavailable
	}
	answer(w, code, h)
}

// role is 200 while the node has it, decided by its own deadline: for load balancers.
func (s *server) role(want node.Role) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		h := s.Node.Health()
		code := http.StatusServiceUnavailable
		if h.Role == want {
			code = http.StatusOK
		}
		answer(w, code, h)
	}
}

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

// Election is the answer of /v1/elections/{name}: the record, as the store shows it now.
type Election struct {
	Name        string        `json:"name"`
	Leader      string        `json:"leader"`
	Incarnation string        `json:"incarnation,omitempty"`
	LeaderAddr  string        `json:"leaderAddr,omitempty"`
	Epoch       uint64        `json:"epoch"`
	Since       time.Time     `json:"since,omitzero"`
	Lease       string        `json:"leaseDuration"`
	Via         string        `json:"via,omitempty"`
	Next        string        `json:"next,omitempty"`
	Paused      bool          `json:"paused"`
	Checkpoint  int           `json:"checkpointBytes"`
	Past        []driver.Past `json:"-"`
}

// record reads an election from the store.
func (s *server) record(w http.ResponseWriter, r *http.Request) (Election, bool) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	name, ok := electionName(w, r)
	if !ok {
		return Election{}, false
	}
	l, err := s.Node.Member.Store.Get(ctx, name)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		answer(w, http.StatusNotFound, neverHeld(name))
		return Election{}, false
	case err != nil:
		answer(w, http.StatusBadGateway, failure{Error: err.Error()})
		return Election{}, false
	}
	return Election{Name: name, Leader: l.Holder.ID, Incarnation: l.Holder.Incarnation, LeaderAddr: l.Addr, Epoch: l.Epoch, Since: l.Since,
		Lease: l.Duration.String(), Via: l.Via, Next: l.Next, Paused: l.Paused, Checkpoint: len(l.Data), Past: l.Past}, true
}

func (s *server) election(w http.ResponseWriter, r *http.Request) {
	if e, ok := s.record(w, r); ok {
		answer(w, http.StatusOK, e)
	}
}

func (s *server) history(w http.ResponseWriter, r *http.Request) {
	e, ok := s.record(w, r)
	if !ok {
		return
	}
	terms := e.Past
	if terms == nil {
		terms = []driver.Past{}
	}
	answer(w, http.StatusOK, map[string]any{"election": e.Name, "terms": terms})
}

// request is the body of a write verb.
type request struct {
	Epoch *uint64 `json:"epoch"` // the one that the caller has seen
	To    string  `json:"to"`
}

// verb runs one of the verbs, unless the election has moved on since its caller looked. It looks first for the sake of a better answer; what
// counts is the condition that the verb itself runs under.
func (s *server) verb(run func(context.Context, *regent.Member, string, request) error) http.Handler {
	return s.authorized(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body request
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		var tooLarge *http.MaxBytesError
		switch err := d.Decode(&body); {
		case errors.As(err, &tooLarge):
			answer(w, http.StatusRequestEntityTooLarge, failure{Error: fmt.Sprintf("the body has more than %d bytes", maxBody)})
			return
		case errors.Is(err, io.EOF), err == nil && body.Epoch == nil:
			answer(w, http.StatusBadRequest, failure{Error: `the body must be JSON with the epoch that you have seen: {"epoch": 7}`})
			return
		case err != nil:
			answer(w, http.StatusBadRequest, failure{Error: fmt.Sprintf("the body cannot be read: %v", err)})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		election, ok := electionName(w, r)
		if !ok {
			return
		}
		l, err := s.Node.Member.Store.Get(ctx, election)
		switch {
		case errors.Is(err, driver.ErrNotFound): // nothing is made of a name that was mistyped
			answer(w, http.StatusNotFound, neverHeld(election))
			return
		case err != nil:
			answer(w, http.StatusBadGateway, failure{Error: err.Error()})
			return
		case l.Epoch != *body.Epoch:
			answer(w, http.StatusConflict, failure{Error: fmt.Sprintf("epoch %d has passed: it is %d now", *body.Epoch, l.Epoch), Epoch: l.Epoch})
			return
		}
		var moved *regent.MovedError
		if err := run(ctx, s.Node.Member, election, body); errors.As(err, &moved) {
			answer(w, http.StatusConflict, failure{Error: err.Error(), Epoch: moved.Epoch})
			return
		} else if err != nil {
			answer(w, http.StatusUnprocessableEntity, failure{Error: err.Error(), Epoch: l.Epoch})
			return
		}
		s.Log.Info("verb done", "verb", r.URL.Path, "remote", r.RemoteAddr, "epoch", l.Epoch)
		if l, err = s.Node.Member.Store.Get(ctx, election); err != nil {
			answer(w, http.StatusBadGateway, failure{Error: "it was done, but the store does not tell the result: " + err.Error()})
			return
		}
		answer(w, http.StatusOK, map[string]any{"election": election, "leader": l.Holder.ID, "epoch": l.Epoch, "paused": l.Paused})
	}))
}
