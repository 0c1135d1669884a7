package api

import (
	"net/http"

	"github.com/regentd/regent/cmd/regent/internal/node"
)

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
