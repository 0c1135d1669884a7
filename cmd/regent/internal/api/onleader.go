package api

import (
	"fmt"
	"net/http"

	"github.com/regentd/regent/cmd/regent/internal/hostport"
	"github.com/regentd/regent/cmd/regent/internal/node"
)

// forwarded is the header of a request that another node has forwarded. It is not forwarded again: nodes may disagree
// for a moment about who leads.
const forwarded = "Regent-Forwarded"

// fallback answers a request in place of the leader. The text why says why no leader answers.
type fallback func(w http.ResponseWriter, r *http.Request, why string)

// onLeader returns a handler whose requests the leader answers with next, whichever node they came to. If nobody leads,
// or the leader cannot be reached, otherwise answers.
func (s *server) onLeader(next http.HandlerFunc, otherwise fallback) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := s.Node.Health()
		client, scheme := s.Node.Peers()
		why := unreachable(h, client)
		switch {
		case h.Role == node.Leader:
			next(w, r)
		case why != "":
			otherwise(w, r, why)
		case r.Header.Get(forwarded) != "":
			otherwise(w, r, fmt.Sprintf("%s leads, as far as %s knows", h.Leader, h.Node))
		case scheme == "https" && r.Method != http.MethodGet && !proved(r):
			// This node would prove it with its own certificate.
			fail(w, http.StatusForbidden, CodeProofRequired,
				"a write without a proof is not forwarded to the leader: send it to the leader itself")
		default:
			s.forward(w, r, h, next, otherwise)
		}
	}
}

// unreachable returns why the leader cannot be asked, as far as that is known without asking it; empty if it can. A
// leader without a listener, such as 'regent run', publishes no address.
func unreachable(h node.Health, client *http.Client) string {
	switch {
	case h.Leader == "":
		return "nobody leads"
	case h.LeaderAddr == "":
		return fmt.Sprintf("%s leads, and publishes no address: it is no node that can be asked", h.Leader)
	case !hostport.Valid(h.LeaderAddr):
		return fmt.Sprintf("the address of %s, which leads, is no host:port: %.100q", h.Leader, h.LeaderAddr)
	case client == nil:
		return "this node does not ask others"
	}

	return ""
}

// noLeader answers a request that only a leader could answer.
func noLeader(w http.ResponseWriter, _ *http.Request, why string) {
	w.Header().Set("Retry-After", "1")
	fail(w, http.StatusServiceUnavailable, CodeNoLeader, "no leader can be asked: "+why)
}
