package gate

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/regentd/regent"
)

// Fenced returns a handler that refuses requests with an epoch older than the fence has seen: 409, with the epoch that beats it in the
// Regent-Epoch header. A request without the header is answered 428. Authenticate before it: an epoch is no credential.
func Fenced(f *regent.Fence, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.Header.Get(EpochHeader)
		epoch, err := strconv.ParseUint(given, 10, 64)
		switch {
		case given == "":
			writeJSON(w, http.StatusPreconditionRequired, Refusal{Error: "the header " + EpochHeader + " is missing"})
			return
		case err != nil:
			writeJSON(w, http.StatusBadRequest, Refusal{Error: fmt.Sprintf("%s %q: it must be a number", EpochHeader, given)})
			return
		}
		err = f.Admit(epoch)
		var stale *regent.StaleError
		switch {
		case errors.As(err, &stale):
			w.Header().Set(EpochHeader, strconv.FormatUint(stale.Newest, 10))
			writeJSON(w, http.StatusConflict, Refusal{Error: err.Error(), Epoch: stale.Newest})
		case err != nil:
			writeJSON(w, http.StatusServiceUnavailable, Refusal{Error: err.Error()})
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// SetEpoch marks a request as sent by the leader of a term.
func SetEpoch(r *http.Request, t regent.Term) {
	r.Header.Set(EpochHeader, strconv.FormatUint(t.Epoch, 10))
}
