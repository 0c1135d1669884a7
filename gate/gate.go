// Package gate is HTTP middleware for services of which one leads: [Gate] lets writes through on the leader alone, and [Fenced] refuses
// requests that a former leader has sent.
//
// A gate asks [regent.Term.Valid], which looks at a deadline, so that a leader which has been cut off refuses writes before anybody else can lead. It
// cannot help a handler that takes longer than the term lasts: its context ends with the term, and what it writes elsewhere should carry the
// epoch. A write whose term has ended before its answer began is answered as refused, since nobody can vouch for it any more.
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

// The headers of a fencing token. A request carries that of the leader which sends it; a refusal
// carries the one that the request was refused for.
const (
	EpochHeader = "Regent-Epoch" // the term's number
	TermHeader  = "Regent-Term"  // the term's incarnation; a request without it is judged by its epoch alone
)

// ErrTermEnded is the cause with which a request's context ends when its term does.
var ErrTermEnded = errors.New("the term ended while the request was served")

// Gate serves reads anywhere, and writes on the leader of an election alone.
type Gate struct {
	Member   *regent.Member // must campaign for the election, or watch it
	Election string
	// Redirect sends writes on to the leader with 307, if its address is known. Otherwise they are answered 503.
	Redirect bool
	// Scheme is what redirects begin with if the leader's address names none; http if empty.
	Scheme string
	// RetryAfter is when a refused client should try again; a second if zero.
	RetryAfter time.Duration
	// Reads says which requests may be served anywhere; GET, HEAD and OPTIONS if nil.
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

// Wrap returns a handler that passes on what the gate lets through. A write's context carries its term: see [TermFrom].
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
	// What this node last saw may name itself, or nobody: then there is nowhere to send the client to.
	if v, ok := g.Member.View(g.Election); ok && v.Leader != "" && v.Leader != g.Member.ID {
		body.Leader, body.LeaderAddr, body.Epoch = v.Leader, v.Addr, v.Epoch
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

// locate is the same request at the leader.
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

// TermFrom returns the term in which a write was let through. Ask its Valid again after anything slow, and pass its Token on.
func TermFrom(ctx context.Context) (regent.Term, bool) {
	t, ok := ctx.Value(termKey{}).(regent.Term)
	return t, ok
}

// answer holds the answer of a write back until it is known that its term still holds.
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
		a.gate.refuse(a.ResponseWriter, a.request, "this node lost the lead while it served the request: it may or may not have been carried out")
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

// Unwrap is for [http.ResponseController], which sets deadlines through it.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// FlushError begins the answer, as flushing does.
func (a *answer) FlushError() error {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Hijack is refused: what a handler then writes could not be held back any more.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.New("a gated write cannot be hijacked")
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client has gone, then
}
