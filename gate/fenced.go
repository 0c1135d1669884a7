package gate

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/regentd/regent"
)

// Fenced returns a handler that refuses requests of former leaders with 409: requests with an older epoch than f has
// admitted, or with the same epoch of another term. The headers Regent-Epoch and Regent-Term of the answer carry the
// newer token. A request without an epoch gets 428, one with an invalid token gets 400, and 503 means that f cannot
// decide. Authenticate requests first: a token is not a credential.
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

// SetToken sets the headers of a term's token. A leader marks the requests that it sends with it.
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
