package work

import "net/http"

// The codes of a worker's answers that are errors. They are for programs and stay as they are when texts change;
// docs/HTTP.md lists them.
const (
	codeInvalid      = "invalid_request"
	codeUnauthorized = "unauthorized"
	codeMethod       = "method_not_allowed"
	codeStale        = "epoch_passed"
	codeForgotten    = "forgotten"
	codeTooLarge     = "body_too_large"
	codeKind         = "unknown_kind"
	codeBusy         = "busy"
	codeUnusable     = "worker_error"
	codeStopping     = "stopping"
	codeFence        = "fence_error"
)

// codes are the codes by status. Status 503 has two: see receipt.code.
var codes = map[int]string{
	http.StatusBadRequest:            codeInvalid,
	http.StatusUnauthorized:          codeUnauthorized,
	http.StatusMethodNotAllowed:      codeMethod,
	http.StatusConflict:              codeStale,
	http.StatusGone:                  codeForgotten,
	http.StatusRequestEntityTooLarge: codeTooLarge,
	http.StatusUnprocessableEntity:   codeKind,
	http.StatusTooManyRequests:       codeBusy,
	http.StatusInternalServerError:   codeUnusable,
	http.StatusServiceUnavailable:    codeFence,
}

// code returns the code of an answer with a status.
func (v *receipt) code(status int) string {
	for _, r := range v.Refused {
		if status == http.StatusServiceUnavailable && r.Why == whyStopping {
			return codeStopping
		}
	}

	return codes[status]
}
