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

// protect checks every request: it must ask for this node's host, a write must not come from another site's page, and
// the body must not be too large.
func (s *server) protect(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusForbidden, CodeCrossOrigin,
			"a write from a page of another site is refused: the Origin or Sec-Fetch-Site header names that site")
	}))
	checked := crossOrigin.Handler(next)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")

		if !s.known(r.Host) {
			fail(w, http.StatusMisdirectedRequest, CodeUnknownHost,
				fmt.Sprintf("host %.100q is not a name of this node: "+
					"use an address, localhost, the name of the host, or that of advertise", r.Host))
			return
		}

		if !strings.HasPrefix(r.URL.Path, tasksPath) {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		}

		checked.ServeHTTP(w, r)
	})
}

// known reports whether a Host header names this node. It refuses a page whose own name resolves to this node (DNS
// rebinding): such a page can fake neither an address nor the name localhost.
func (s *server) known(hostport string) bool {
	if hostport == "" { // HTTP/1.0, which load balancers speak and browsers do not
		return true
	}

	host := hostport

	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}

	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return true
	}

	if slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}

	self, err := os.Hostname()

	return err == nil && strings.EqualFold(host, self)
}

// proofKey is the key under which the context of a request holds that its sender has proved itself.
type proofKey struct{}

// proved reports whether the sender of the request has proved itself.
func proved(r *http.Request) bool { return r.Context().Value(proofKey{}) != nil }

// authorized admits a write that carries the token, is signed with it by another member, or comes from a client whose
// certificate was verified. A node without a token that neither asks for certificates nor is guarded admits every
// write.
func (s *server) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.verifier.Offer(w.Header())
		if verified(r) || s.carriesToken(r) {
			s.admit(w, r, next, nil)
			return
		}

		s.admit(w, r, next, s.verifier.Verify(r, maxBody))
	})
}

// fromMembers admits a request of another member, which is signed or comes with a certificate that was verified. It
// does not accept the token itself: a member that sent it would send it to any address that the store names.
func (s *server) fromMembers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.verifier.Offer(w.Header())
		if verified(r) {
			s.admit(w, r, next, nil)
			return
		}

		s.admit(w, r, next, s.verifier.Verify(r, work.MaxBody))
	})
}

// admit passes a request on, unless it needs a proof. The error unproved says why it has none.
func (s *server) admit(w http.ResponseWriter, r *http.Request, next http.Handler, unproved error) {
	var large *http.MaxBytesError
	token := s.Token.Token() != ""

	asks := asksForCertificates(r)
	switch {
	case unproved == nil:
		protectConnection(r)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), proofKey{}, true)))
	case !token && !asks && !s.Guarded:
		next.ServeHTTP(w, r)
	case errors.As(unproved, &large):
		failTooLarge(w, large.Limit)
	case token:
		if !strings.HasPrefix(r.URL.Path, tasksPath) {
			w.Header().Add("WWW-Authenticate", "Bearer")
		}
		w.Header().Add("WWW-Authenticate", signed.Demand(unproved))
		fail(w, http.StatusUnauthorized, CodeUnauthorized, missingProof(r, unproved))
	case asks:
		fail(w, http.StatusUnauthorized, CodeUnauthorized,
			"this needs a client certificate that one of tlsCA has signed")
	default:
		fail(w, http.StatusForbidden, CodeNoProof,
			"this node listens beyond loopback: writes and event streams need a "+
				"proof, and none can be given before token, tokenFile or tlsCA is set")
	}
}

// missingProof says which proof is missing: to a person the token, to a member what is wrong with its signature.
func missingProof(r *http.Request, signature error) string {
	if strings.HasPrefix(r.URL.Path, tasksPath) || signed.Present(r) {
		return signature.Error()
	}
	if _, given := signed.Bearer(r); given {
		return "the token that was sent is not that of the cluster"
	}
	return "this needs the cluster's token: Authorization: Bearer …"
}

// carriesToken reports whether the request carries the token of the cluster.
func (s *server) carriesToken(r *http.Request) bool {
	given, ok := signed.Bearer(r)
	token := s.Token.Token()

	// They are hashed, so that the time that the comparison takes shows neither content nor length.
	a := sha256.Sum256([]byte(given))
	b := sha256.Sum256([]byte(token))

	return ok && token != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// asksForCertificates reports whether the server verifies the certificates of clients. Clients without one may still
// read.
func asksForCertificates(r *http.Request) bool {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	return r.TLS != nil && server != nil && server.TLSConfig != nil && server.TLSConfig.ClientCAs != nil
}

// verified reports whether the certificate of the client was verified.
func verified(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }
