package api

import (
	"context"
	"net/http"

	"github.com/regentd/regent/cmd/regent/internal/health"
)

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
