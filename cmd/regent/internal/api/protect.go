package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
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

// authorized lets a write through if it carries the token, where there is one, or comes from a client whose certificate was verified. It must do one
// of the two where the node has a token, asks for certificates, or is guarded.
func (s *server) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verified, asks := proved(r), asksForCertificates(r)
		switch {
		case verified || s.carriesToken(r) || s.Token == "" && !asks && !s.Guarded:
			next.ServeHTTP(w, r)
		case s.Token != "":
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer(w, http.StatusUnauthorized, failure{Error: "this needs the cluster's token: Authorization: Bearer …"})
		case asks:
			answer(w, http.StatusUnauthorized, failure{Error: "this needs a certificate that is signed as tlsCA says"})
		default:
			answer(w, http.StatusForbidden, failure{Error: "others can reach this node, so that it takes writes only with a proof, for which it must have a token or tlsCA"})
		}
	})
}

func (s *server) carriesToken(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	// Hashed, so that neither content nor length shows in the time that it takes.
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.Token))
	return ok && s.Token != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// asksForCertificates reports whether the server verifies the certificates of clients. It takes those without one as well, for what everybody may read.
func asksForCertificates(r *http.Request) bool {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	return r.TLS != nil && server != nil && server.TLSConfig != nil && server.TLSConfig.ClientCAs != nil
}

// proved reports whether the client's certificate was verified.
func proved(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }
