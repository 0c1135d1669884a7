package gate

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/regentd/regent"
)

// Fenced returns a handler that refuses requests of former leaders: those whose epoch is older than
// the fence has seen, or the same of another term. They are answered 409, and the headers
// Regent-Epoch and Regent-Term tell which term they were refused for. A request without an epoch is
// answered 428, and one with a token that no term can have 400. Authenticate before it: a token is
// not a credential.
func Fenced(f *regent.Fence, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(EpochHeader) == "" {
			writeJSON(w, http.StatusPreconditionRequired, Refusal{Error: "the header " + EpochHeader + " is missing"})
			return
		}
		token, err := tokenOf(r.Header)
		if err == nil {
			err = f.Admit(token)
		}

		var stale *regent.StaleError
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case errors.As(err, &stale):
			SetToken(w.Header(), regent.Token{Epoch: stale.Newest, Term: stale.NewestTerm})
			writeJSON(w, http.StatusConflict, Refusal{Error: err.Error(), Epoch: stale.Newest})
		case errors.Is(err, regent.ErrInvalidToken):
			writeJSON(w, http.StatusBadRequest, Refusal{Error: err.Error()})
		default:
			writeJSON(w, http.StatusServiceUnavailable, Refusal{Error: err.Error()})
		}
	})
}

// SetToken sets the headers of a term's token, with which its leader marks the requests that it
// sends.
func SetToken(h http.Header, t regent.Token) {
	h.Set(EpochHeader, strconv.FormatUint(t.Epoch, 10))
	if t.Term != "" {
		h.Set(TermHeader, t.Term)
	}
}

// tokenOf returns the token in the headers of a request.
func tokenOf(h http.Header) (regent.Token, error) {
	given := h.Get(EpochHeader)
	epoch, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		return regent.Token{}, fmt.Errorf("%w: %s %q: it must be a number", regent.ErrInvalidToken, EpochHeader, given)
	}
	return regent.NewToken(epoch, h.Get(TermHeader)), nil
}
