package api

import (
	"context"
	"net/http"

	"github.com/regentd/regent/cmd/regent/internal/health"
)

// members answers with the cluster as its leader sees it or, if there is none, as the store shows it.
func (s *server) members() http.HandlerFunc {
	return s.onLeader(func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusOK, s.Node.Cluster.Snapshot())
	}, func(w http.ResponseWriter, r *http.Request, why string) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()

		all, err := s.Node.Member.Members(ctx)
		if err != nil {
			fail(w, http.StatusBadGateway, CodeStore, err.Error())
			return
		}

		answer(w, http.StatusOK, health.NoCoordinator(all, why))
	})
}
