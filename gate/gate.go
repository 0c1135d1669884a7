// Package gate is HTTP middleware for services of which at most one process may write. [Gate] serves writes on the
// leader only, and [Fenced] refuses requests that a former leader has sent.
//
// A gate calls [regent.Term.Valid], which compares a deadline. So a leader that is cut off from the store refuses
// writes before another member can lead. A gate cannot stop a handler that runs longer than the term: the handler's
// context ends with the term, and what it writes elsewhere should carry the epoch. If the term ends before a handler
// has started its answer, the client gets a refusal that says that the outcome is unknown.
package gate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/regentd/regent"
)

// The headers of a fencing token. A request carries the token of the leader that sends it. A refusal carries the newer
// token.
const (
	EpochHeader = "Regent-Epoch" // the epoch of the term
	TermHeader  = "Regent-Term"  // the incarnation of the term; without it only the epoch is compared
)

// ErrTermEnded is the cause of a request's context if the term ended while the request was served.
var ErrTermEnded = errors.New("the term ended while the request was served")

// Gate serves reads on every node, and writes on the leader of an election only.
type Gate struct {
	Member   *regent.Member // must campaign for the election, or watch it
	Election string
	// Redirect answers writes with 307 to the leader, if its address is known. All other refused writes get 503.
	Redirect bool
	// Scheme is used in redirects if the leader's address has none; http if empty.
	Scheme string
	// RetryAfter is sent to refused clients; a second if zero.
	RetryAfter time.Duration
	// Reads reports whether a request may be served on every node; if nil, GET, HEAD and OPTIONS may.
	Reads func(*http.Request) bool
}

// Refusal is the body of a refused write.
type Refusal struct {
	Error      string `json:"error"`
	Election   string `json:"election"`
	Leader     string `json:"leader,omitempty"`
	LeaderAddr string `json:"leaderAddr,omitempty"`
	Epoch      uint64 `json:"epoch,omitempty"`
}

// Wrap returns a handler that passes allowed requests to next. The context of a write carries its term: see [TermFrom].
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.reads(r) {
			next.ServeHTTP(w, r)
			return
		}

		term, ok := g.Member.Leads(g.Election)
		if !ok {
			g.refuse(w, r, "this node does not lead")
			return
		}

		ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), termKey{}, term))
		defer cancel(nil)

		served := make(chan struct{})
		defer close(served)

		go func() {
			select {
			case <-term.Done():
				cancel(ErrTermEnded)
			case <-served:
			}
		}()

		a := &answer{ResponseWriter: w, gate: g, request: r, term: term}
		next.ServeHTTP(a, r.WithContext(ctx))
		if !a.begun { // a handler that writes nothing means 200
			a.WriteHeader(http.StatusOK)
		}
	})
}

func (g *Gate) reads(r *http.Request) bool {
	if g.Reads != nil {
		return g.Reads(r)
	}
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
}

// refuse answers a write that this node may not serve.
func (g *Gate) refuse(w http.ResponseWriter, r *http.Request, why string) {
	body := Refusal{Error: why, Election: g.Election}
	// What this node has read last may name itself, or nobody: then there is nowhere to redirect to.
	if v, ok := g.Member.View(g.Election); ok && v.Leader != "" && v.Leader != g.Member.ID {
		body.Leader = v.Leader
		body.LeaderAddr = v.Addr
		body.Epoch = v.Epoch
	}

	if g.Redirect && body.LeaderAddr != "" {
		if to, err := g.locate(body.LeaderAddr, r); err == nil {
			w.Header().Set("Location", to)
			writeJSON(w, http.StatusTemporaryRedirect, body)
			return
		}
	}

	after := g.RetryAfter
	if after <= 0 {
		after = time.Second
	}

	w.Header().Set("Retry-After", strconv.Itoa(max(1, int((after+time.Second-1)/time.Second))))
	writeJSON(w, http.StatusServiceUnavailable, body)
}

// locate returns the URL of the same request at the leader.
func (g *Gate) locate(addr string, r *http.Request) (string, error) {
	base, err := url.Parse(addr)
	if err != nil || base.Host == "" { // host:port
		scheme := g.Scheme
		if scheme == "" {
			scheme = "http"
		}
		if base, err = url.Parse(scheme + "://" + addr); err != nil {
			return "", err
		}
	}

	to := base.JoinPath(r.URL.EscapedPath())
	to.RawQuery = r.URL.RawQuery
	return to.String(), nil
}

type termKey struct{}

// TermFrom returns the term in which a write was allowed. Call its Valid again after anything slow, and pass its Token
// on with what you write elsewhere.
func TermFrom(ctx context.Context) (regent.Term, bool) {
	t, ok := ctx.Value(termKey{}).(regent.Term)
	return t, ok
}

// answer delays the status of a write until it is known that its term is still valid.
type answer struct {
	http.ResponseWriter
	gate    *Gate
	request *http.Request
	term    regent.Term
	begun   bool
	refused bool
}

func (a *answer) WriteHeader(code int) {
	if code < 200 || a.begun {
		if !a.refused {
			a.ResponseWriter.WriteHeader(code)
		}
		return
	}

	a.begun = true
	if code < 400 && !a.term.Valid() {
		a.refused = true
		for name := range a.Header() {
			a.Header().Del(name)
		}
		a.gate.refuse(a.ResponseWriter, a.request,
			"this node lost the lead while it served the request: the write may or may not have been applied")
		return
	}

	if a.Header().Get(EpochHeader) == "" {
		SetToken(a.Header(), a.term.Token())
	}

	a.ResponseWriter.WriteHeader(code)
}

func (a *answer) Write(b []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	if a.refused {
		return len(b), nil
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] set deadlines.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// FlushError starts the answer, and flushes it.
func (a *answer) FlushError() error {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Hijack returns an error: the gate could not delay what a handler writes to a raw connection.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.New("a gated write cannot be hijacked")
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // an error means that the client has disconnected
}
