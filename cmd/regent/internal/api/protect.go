package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/regentd/regent/internal/signed"
	"github.com/regentd/regent/work"
)

// protect is what every request passes: the host that it asks for is this node's, a write does not come from another site's page, and its body
// is not too large.
func (s *server) protect(next http.Handler) http.Handler {
	guarded := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		if !s.known(r.Host) {
			answer(w, http.StatusMisdirectedRequest, failure{Error: "this node is not known by the name that was asked for"})
			return
		}
		if !strings.HasPrefix(r.URL.Path, tasks) {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		}
		guarded.ServeHTTP(w, r)
	})
}

// known reports whether a Host header names this node. A page that has made a name of its own point here (DNS rebinding) gets nothing: it can
// fake neither an address nor the name localhost.
func (s *server) known(hostport string) bool {
	if hostport == "" { // HTTP/1.0, as load balancers speak it; no browser does
		return true
	}
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" ||
		slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	self, err := os.Hostname()
	return err == nil && strings.EqualFold(host, self)
}

// proofKey is the key of a request's context under which authorized leaves a mark.
type proofKey struct{}

// vouched reports whether authorized has let the request through because it proves who sends it.
func vouched(r *http.Request) bool { return r.Context().Value(proofKey{}) != nil }

// authorized lets a write through if it carries the token, is signed with it by another member, or comes from a client whose
// certificate was verified. It must do one of these where the node has a token, asks for certificates, or is guarded.
func (s *server) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.verifier.Offer(w.Header())
		if proved(r) || s.carriesToken(r) {
			s.admit(w, r, next, nil)
			return
		}
		s.admit(w, r, next, s.verifier.Verify(r, maxBody))
	})
}

// fromMembers lets a request through that a member sends to a member: signed, or with a certificate that was verified. The
// token itself is not accepted: a member that sends it would send it to any address that the store names.
func (s *server) fromMembers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.verifier.Offer(w.Header())
		if proved(r) {
			s.admit(w, r, next, nil)
			return
		}
		s.admit(w, r, next, s.verifier.Verify(r, work.MaxBody))
	})
}

// admit passes a request on, unless it needs a proof and unproved says why it has none.
func (s *server) admit(w http.ResponseWriter, r *http.Request, next http.Handler, unproved error) {
	var large *http.MaxBytesError
	token, asks := s.Token.Token() != "", asksForCertificates(r)
	switch {
	case unproved == nil:
		protectConnection(r)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), proofKey{}, true)))
	case !token && !asks && !s.Guarded:
		next.ServeHTTP(w, r)
	case errors.As(unproved, &large):
		answer(w, http.StatusRequestEntityTooLarge, failure{Error: fmt.Sprintf("the body has more than %d bytes", large.Limit)})
	case token:
		if !strings.HasPrefix(r.URL.Path, tasks) {
			w.Header().Add("WWW-Authenticate", "Bearer")
		}
		w.Header().Add("WWW-Authenticate", signed.Demand(unproved))
		answer(w, http.StatusUnauthorized, failure{Error: s.unproved(r, unproved)})
	case asks:
		answer(w, http.StatusUnauthorized, failure{Error: "this needs a certificate that is signed as tlsCA says"})
	default:
		answer(w, http.StatusForbidden, failure{Error: "others can reach this node, so that it takes writes and streams events only with a " +
			"proof, for which it must have a token or tlsCA"})
	}
}

// unproved says what is missing: a person is told of the token, a member what is wrong with its signature.
func (s *server) unproved(r *http.Request, signature error) string {
	if strings.HasPrefix(r.URL.Path, tasks) || signed.Present(r) {
		return signature.Error()
	}
	return "this needs the cluster's token: Authorization: Bearer …"
}

func (s *server) carriesToken(r *http.Request) bool {
	given, ok := signed.Bearer(r)
	token := s.Token.Token()
	// Hashed, so that neither content nor length shows in the time that it takes.
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return ok && token != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// asksForCertificates reports whether the server verifies the certificates of clients. It takes those without one as well, for what everybody may read.
func asksForCertificates(r *http.Request) bool {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	return r.TLS != nil && server != nil && server.TLSConfig != nil && server.TLSConfig.ClientCAs != nil
}

// proved reports whether the client's certificate was verified.
func proved(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }
