package api

import (
	"fmt"
	"net/http"

	"github.com/regentd/regent/cmd/regent/internal/hostport"
	"github.com/regentd/regent/cmd/regent/internal/node"
)

// forwarded says that a request comes from a node that does not lead. It is not passed on again: views of who leads may differ for a moment.
const forwarded = "Regent-Forwarded"

// fallback answers a request in place of a leader, and is told why there is none that answers.
type fallback func(w http.ResponseWriter, r *http.Request, why string)

// onLeader has a request answered by the leader, whichever node it came to. Where there is none, or it cannot be reached,
// otherwise answers.
func (s *server) onLeader(next http.HandlerFunc, otherwise fallback) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := s.Node.Health()
		client, scheme := s.Node.Peers()
		switch {
		case h.Role == node.Leader:
			next(w, r)
		case h.Leader == "":
			otherwise(w, r, "nobody leads")
		case h.LeaderAddr == "":
			otherwise(w, r, noAddress(h))
		case !hostport.Valid(h.LeaderAddr):
			otherwise(w, r, fmt.Sprintf("the address of %s, which leads, is no host:port: %.100q", h.Leader, h.LeaderAddr))
		case r.Header.Get(forwarded) != "":
			otherwise(w, r, fmt.Sprintf("%s leads, as far as %s knows", h.Leader, h.Node))
		case client == nil:
			otherwise(w, r, "this node does not ask others")
		case scheme == "https" && r.Method != http.MethodGet && !vouched(r):
			// This node would vouch for it with its own certificate.
			answer(w, http.StatusForbidden, failure{Error: "a write that proves nothing is not passed on to the leader"})
		default:
			s.forward(w, r, h, next, otherwise)
		}
	}
}

// noAddress says why a leader cannot be asked that leads without a listener, such as 'regent run'.
func noAddress(h node.Health) string {
	return fmt.Sprintf("%s leads, and publishes no address: it is no node that could be asked", h.Leader)
}

// nobody answers what only a leader could.
func nobody(w http.ResponseWriter, _ *http.Request, why string) {
	w.Header().Set("Retry-After", "1")
	answer(w, http.StatusServiceUnavailable, failure{Error: "no coordinator: " + why})
}
