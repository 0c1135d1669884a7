// Package api is a node's HTTP face: how it is, who leads, what happens, and the verbs that ask a leader for something. Reads never ask the
// store unless their answer is in it; health and role are told from what the node knows.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/internal/signed"
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
