// Package api serves the HTTP API of a node: health and role for probes, metrics, events, the state of elections,
// members and polls, and the verbs that an operator asks a leader for.
//
// Health and role are answered from what the node knows: they never wait for the store. A read asks the store only if
// its answer is there, or the leader if only a leader knows the answer. Every error is JSON with a stable [Code].
package api

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/elections"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/cmd/regent/internal/page"
	"github.com/regentd/regent/internal/signed"
)

// Options configures the handler of a node.
type Options struct {
	Node    *node.Node
	Log     *slog.Logger
	Token   *signed.Secret // that writes and streams must prove; nil for none
	Guarded bool           // writes need a proof even if no token is set: a certificate
	Hosts   []string       // names that a Host header may have, besides addresses and localhost
	Version string
	Limits  *Limits // of streams and connections; those of NewLimits if nil

	EventPrefix string // of the names of events on a stream; empty for none
}

const (
	// maxBody is the largest body that a request may have, in bytes.
	maxBody = 64 << 10

	// tasksPath is where a worker takes tasks. Their size has a limit of its own.
	tasksPath = "/v1/tasks"

	// requestTimeout is how long a request that asks the store, or a leader, may take.
	requestTimeout = 30 * time.Second
)

// server has the handlers of a node.
type server struct {
	Options
	stopping  <-chan struct{}
	verifier  *signed.Verifier
	elections *elections.Shared
}

// New returns the handler of a node. Streams end when stopping is closed.
func New(opts Options, stopping <-chan struct{}) http.Handler {
	if opts.Limits == nil {
		opts.Limits = NewLimits(opts.Log)
	}

	m := opts.Node.Member
	lister := &elections.Lister{Store: m.Store, Rank: m.Config.Rank}
	s := &server{
		Options:   opts,
		stopping:  stopping,
		verifier:  signed.NewVerifier(opts.Token, m.ID, m.Addr),
		elections: elections.NewShared(lister, stopping),
	}

	mux := http.NewServeMux()
	s.serveHealth(mux)
	s.serveElections(mux)
	s.servePolls(mux)
	mux.Handle("GET /{$}", page.Handler())
	mux.Handle("GET /page/{file}", withJSONNotFound(page.Handler()))
	mux.Handle("GET /metrics", s.metrics())
	mux.HandleFunc("GET /v1/metrics", s.stats)
	mux.HandleFunc("GET /v1/openapi.json", s.openapi())
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("GET /v1/members", s.members())
	mux.Handle("GET /v1/events", s.readers(s.events))

	if worker := opts.Node.Worker; worker != nil {
		mux.Handle("POST "+tasksPath, s.fromMembers(worker))
		mux.Handle("POST "+tasksPath+"/results", s.fromMembers(worker))
	}

	return s.protect(withJSONErrors(mux))
}

// Server returns an HTTP server in which every limit is set.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      requestTimeout + 10*time.Second, // a stream sets its own, per write
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
