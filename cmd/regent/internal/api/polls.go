package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/gate"
)

// newcomer is how long a new leader may take to read its polls before requests about them are refused.
const newcomer = 2 * time.Second

// servePolls adds what is about polls. Any node takes the requests; the leader answers them.
func (s *server) servePolls(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/polls", s.conducted(s.listPolls))
	mux.HandleFunc("GET /v1/polls/{name}", s.conducted(s.getPoll))
	mux.Handle("PUT /v1/polls/{name}", s.authorized(s.conducted(s.putPoll)))
	mux.Handle("DELETE /v1/polls/{name}", s.authorized(s.conducted(s.deletePoll)))
	mux.Handle("POST /v1/polls/{name}/run", s.authorized(s.conducted(s.runPoll)))
}

// conducted has a request answered by the leader. One that has only just won reads its polls first: it is given a moment for that.
func (s *server) conducted(next http.HandlerFunc) http.HandlerFunc {
	return s.onLeader(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), newcomer)
		s.Node.Polls.Await(ctx)
		cancel()
		next(w, r)
	}, nobody)
}

func (s *server) listPolls(w http.ResponseWriter, _ *http.Request) {
	all, err := s.Node.Polls.List()
	if err != nil {
		refusePoll(w, err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"polls": all})
}

func (s *server) getPoll(w http.ResponseWriter, r *http.Request) {
	v, err := s.Node.Polls.Get(r.PathValue("name"))
	if err != nil {
		refusePoll(w, err)
		return
	}
	answer(w, http.StatusOK, v)
}

func (s *server) putPoll(w http.ResponseWriter, r *http.Request) {
	epoch, ok := named(w, r)
	if !ok {
		return
	}
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	p, err := poll.Decode(r.PathValue("name"), body)
	if err != nil {
		answer(w, http.StatusUnprocessableEntity, failure{Error: err.Error()})
		return
	}
	if c := s.Node.Config(); c.OwnLease && !c.Register {
		answer(w, http.StatusUnprocessableEntity, failure{Error: "register must be true on all nodes where there are polls, so that workers are known"})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	created, err := s.Node.Polls.Put(ctx, p, epoch)
	if err != nil {
		refusePoll(w, err)
		return
	}
	s.Log.Info("poll kept", "poll", p.Name, "remote", r.RemoteAddr)
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	answer(w, code, p.Redacted())
}

func (s *server) deletePoll(w http.ResponseWriter, r *http.Request) {
	epoch, ok := named(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	if err := s.Node.Polls.Remove(ctx, r.PathValue("name"), epoch); err != nil {
		refusePoll(w, err)
		return
	}
	s.Log.Info("poll removed", "poll", r.PathValue("name"), "remote", r.RemoteAddr)
	w.WriteHeader(http.StatusNoContent)
}

// runPoll runs a poll at once, unless the leader has changed since its caller looked, and answers with the outcome.
func (s *server) runPoll(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	var seen request
	if err := json.Unmarshal(body, &seen); err != nil || seen.Epoch == nil || *seen.Epoch == 0 {
		answer(w, http.StatusBadRequest, failure{Error: `the body must be JSON with the epoch that you have seen: {"epoch": 7}`})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	run, err := s.Node.Polls.RunNow(ctx, r.PathValue("name"), *seen.Epoch)
	if err != nil {
		refusePoll(w, err)
		return
	}
	answer(w, http.StatusOK, run)
}

// named returns the epoch that a write names, in the header Regent-Epoch; 0 if none.
func named(w http.ResponseWriter, r *http.Request) (epoch uint64, ok bool) {
	text := r.Header.Get(gate.EpochHeader)
	if text == "" {
		return 0, true
	}
	epoch, err := strconv.ParseUint(text, 10, 64)
	if err != nil || epoch == 0 {
		answer(w, http.StatusBadRequest, failure{Error: fmt.Sprintf("%s %q: must be a number, from 1 on", gate.EpochHeader, text)})
		return 0, false
	}
	return epoch, true
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

func refusePoll(w http.ResponseWriter, err error) {
	code := http.StatusBadGateway
	var moved *regent.MovedError
	var bad *regent.ConfigError
	switch {
	case errors.As(err, &bad):
		code = http.StatusUnprocessableEntity
	case errors.As(err, &moved):
		answer(w, http.StatusConflict, failure{Error: err.Error(), Epoch: moved.Epoch})
		return
	case errors.Is(err, orchestrate.ErrNoPoll):
		code = http.StatusNotFound
	case errors.Is(err, orchestrate.ErrFixed):
		code = http.StatusConflict
	case errors.Is(err, orchestrate.ErrNotLeading), errors.Is(err, orchestrate.ErrStopping), errors.Is(err, regent.ErrNotLeader):
		w.Header().Set("Retry-After", "1")
		code = http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		code = http.StatusGatewayTimeout
	}
	answer(w, code, failure{Error: err.Error()})
}
