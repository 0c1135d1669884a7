package api

import (
	"net/http"

	"github.com/regentd/regent/cmd/regent/internal/node"
)

// serveHealth adds the paths for probes and load balancers.
func (s *server) serveHealth(mux *http.ServeMux) {
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /healthz", s.readyz)
	mux.HandleFunc("GET /leader", s.role(node.Leader))
	mux.HandleFunc("GET /standby", s.role(node.Standby))
}

// livez answers 200 unless the node's own loop is stuck.
func (s *server) livez(w http.ResponseWriter, _ *http.Request) {
	if err := s.Node.Live(); err != nil {
		fail(w, http.StatusServiceUnavailable, CodeStuck, err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz answers 200 on a leader and on a standby that can read and write the store, and whose health check passes. If
// only a leader were ready, rollouts would hang.
func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	h := s.Node.Health()
	usable := h.Store.Reachable && h.Store.Writable
	placed := h.Role != node.Starting && h.Role != node.Unknown

	status := http.StatusOK

	healthy := h.HealthCheck == nil || h.HealthCheck.OK

	if !usable || !placed || !healthy || s.Node.Member.Blocked() != "" {
		status = http.StatusServiceUnavailable
	}

	answer(w, status, h)
}

// role returns a handler that answers 200 while the node has the role, by its own deadline.
func (s *server) role(want node.Role) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		h := s.Node.Health()
		status := http.StatusServiceUnavailable

		if h.Role == want {
			status = http.StatusOK
		}

		answer(w, status, h)
	}
}
