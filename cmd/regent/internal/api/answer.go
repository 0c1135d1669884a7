package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// failure is the body of every answer that is an error.
type failure struct {
	Error string `json:"error"`
	Epoch uint64 `json:"epoch,omitempty"` // the current one, where the one given has passed
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(body) // the client has gone, then
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	b, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		answer(w, http.StatusRequestEntityTooLarge, failure{Error: fmt.Sprintf("the body has more than %d bytes", maxBody)})
	case err != nil:
		answer(w, http.StatusBadRequest, failure{Error: "the body cannot be read"})
	}
	return b, err == nil
}
