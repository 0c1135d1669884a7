package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Code names the kind of an error for programs. Codes stay as they are when texts change.
type Code string

// The codes of errors, as docs/HTTP.md lists them.
const (
	CodeInvalidRequest  Code = "invalid_request"    // 400: the body, a header or a name
	CodeUnauthorized    Code = "unauthorized"       // 401: a proof is missing or wrong
	CodeNoProof         Code = "no_proof"           // 403: the node has neither token nor tlsCA
	CodeProofRequired   Code = "proof_required"     // 403: a write without a proof is not forwarded
	CodeCrossOrigin     Code = "cross_origin"       // 403: a write from another site's page
	CodeUnknownPath     Code = "unknown_path"       // 404
	CodeUnknownElection Code = "unknown_election"   // 404: the election was never held
	CodeUnknownPoll     Code = "unknown_poll"       // 404
	CodeMethod          Code = "method_not_allowed" // 405
	CodeEpochPassed     Code = "epoch_passed"       // 409: another term has begun
	CodePollInFile      Code = "poll_in_file"       // 409: the configuration file defines the poll
	CodeForgotten       Code = "forgotten"          // 410: a worker cannot know whether it had a task
	CodeBodyTooLarge    Code = "body_too_large"     // 413
	CodeUnknownHost     Code = "unknown_host"       // 421: the Host header names another node
	CodeRefused         Code = "refused"            // 422: understood, and cannot be done
	CodeUnknownKind     Code = "unknown_kind"       // 422: a worker has no handler for a task
	CodeBusy            Code = "busy"               // 429: a worker has no room for a task
	CodeWorker          Code = "worker_error"       // 500: a worker cannot use its files
	CodeStore           Code = "store_error"        // 502
	CodeLeader          Code = "leader_error"       // 502: the leader has refused, or the connection broke
	CodeStuck           Code = "stuck"              // 503: the node's own loop
	CodeNoLeader        Code = "no_leader"          // 503
	CodeTooManyStreams  Code = "too_many_streams"   // 503
	CodeStopping        Code = "stopping"           // 503: a worker stops
	CodeFence           Code = "fence_error"        // 503: a worker cannot check the epoch of a task
	CodeTimeout         Code = "timeout"            // 504: the outcome of a write is unknown
)

// failure is the body of every answer that is an error.
type failure struct {
	Code  Code   `json:"code"`
	Error string `json:"error"`
	Epoch uint64 `json:"epoch,omitempty"` // the current one, where the named one has passed
}

// answer writes a JSON body.
func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)

	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(body) // it fails only if the client has left
}

// fail answers with an error.
func fail(w http.ResponseWriter, status int, code Code, text string) {
	answer(w, status, failure{Code: code, Error: text})
}

// failTooLarge answers a request whose body has more than limit bytes.
func failTooLarge(w http.ResponseWriter, limit int64) {
	fail(w, http.StatusRequestEntityTooLarge, CodeBodyTooLarge, fmt.Sprintf("the body has more than %d bytes", limit))
}

// failNoEpoch answers a write that does not name an epoch.
func failNoEpoch(w http.ResponseWriter) {
	fail(w, http.StatusBadRequest, CodeInvalidRequest,
		`the body must be JSON with the epoch that you have seen: {"epoch": 7}`)
}

// readBody returns the body of a request. If it cannot be read, readBody answers the request and returns false.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		failTooLarge(w, large.Limit)
	case err != nil:
		fail(w, http.StatusBadRequest, CodeInvalidRequest, "the body cannot be read")
	}

	return body, err == nil
}

// withJSONErrors passes requests to mux. Where mux itself answers 404 or 405, as text, the answer becomes JSON.
func withJSONErrors(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}

		handler.ServeHTTP(&jsonErrors{ResponseWriter: w, request: r}, r)
	})
}

// jsonErrors is the writer of an answer for which mux has no pattern. It replaces the text with JSON.
type jsonErrors struct {
	http.ResponseWriter
	request *http.Request
}

// WriteHeader implements [http.ResponseWriter]. It writes the whole answer.
func (w *jsonErrors) WriteHeader(status int) {
	path := w.request.URL.Path
	switch status {
	case http.StatusMethodNotAllowed:
		fail(w.ResponseWriter, status, CodeMethod, fmt.Sprintf("%s does not take %s, but %s",
			path, w.request.Method, w.Header().Get("Allow")))
	default:
		fail(w.ResponseWriter, status, CodeUnknownPath, fmt.Sprintf("there is no path %q", path))
	}
}

// Write implements [http.ResponseWriter]. It drops the text that mux would send.
func (w *jsonErrors) Write(text []byte) (int, error) { return len(text), nil }

// withJSONNotFound passes requests to next. If next answers 404 as text, the answer becomes JSON.
func withJSONNotFound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&jsonNotFound{ResponseWriter: w, request: r}, r)
	})
}

// jsonNotFound is the writer of an answer whose 404 is replaced.
type jsonNotFound struct {
	http.ResponseWriter
	request *http.Request
	found   bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *jsonNotFound) WriteHeader(status int) {
	if status == http.StatusNotFound {
		(&jsonErrors{ResponseWriter: w.ResponseWriter, request: w.request}).WriteHeader(status)
		return
	}

	w.found = true
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter]. It drops the text of a 404.
func (w *jsonNotFound) Write(b []byte) (int, error) {
	if !w.found {
		return len(b), nil
	}

	return w.ResponseWriter.Write(b)
}
