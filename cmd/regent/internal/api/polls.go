package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/gate"
)

// pollsTimeout is how long a request about polls waits for a new leader to read them. Then it is refused.
const pollsTimeout = 2 * time.Second

// servePolls adds the paths of polls. Any node takes the requests; the leader answers them.
func (s *server) servePolls(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/polls", s.withPolls(s.listPolls))
	mux.HandleFunc("GET /v1/polls/{name}", s.withPolls(s.getPoll))
	mux.Handle("PUT /v1/polls/{name}", s.authorized(s.withPolls(s.putPoll)))
	mux.Handle("DELETE /v1/polls/{name}", s.authorized(s.withPolls(s.deletePoll)))
	mux.Handle("POST /v1/polls/{name}/run", s.authorized(s.withPolls(s.runPoll)))
}

// withPolls returns a handler whose requests the leader answers with next. A leader that has just won reads its polls
// first.
func (s *server) withPolls(next http.HandlerFunc) http.HandlerFunc {
	return s.onLeader(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pollsTimeout)
		s.Node.Polls.Await(ctx)
		cancel()

		next(w, r)
	}, noLeader)
}

// listPolls answers with all polls; with results=1 each has its last runs.
func (s *server) listPolls(w http.ResponseWriter, r *http.Request) {
	all, err := s.Node.Polls.List(r.URL.Query().Get("results") != "")
	if err != nil {
		failPoll(w, err)
		return
	}

	answer(w, http.StatusOK, map[string]any{"polls": all})
}

func (s *server) getPoll(w http.ResponseWriter, r *http.Request) {
	v, err := s.Node.Polls.Get(r.PathValue("name"))
	if err != nil {
		failPoll(w, err)
		return
	}

	answer(w, http.StatusOK, v)
}

func (s *server) putPoll(w http.ResponseWriter, r *http.Request) {
	epoch, ok := epochHeader(w, r)
	if !ok {
		return
	}

	body, ok := readBody(w, r)
	if !ok {
		return
	}

	p, err := poll.Decode(r.PathValue("name"), body)
	if err != nil {
		fail(w, http.StatusUnprocessableEntity, CodeRefused, err.Error())
		return
	}

	if c := s.Node.Config(); c.OwnLease && !c.Register {
		fail(w, http.StatusUnprocessableEntity, CodeRefused,
			"register must be true on all nodes where there are polls, so that workers are known")
		return
	}

	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()

	created, err := s.Node.Polls.Put(ctx, p, epoch)
	if err != nil {
		failPoll(w, err)
		return
	}

	s.Log.Info("poll stored", "poll", p.Name, "remote", r.RemoteAddr)
	status := http.StatusOK

	if created {
		status = http.StatusCreated
	}

	answer(w, status, p.Redacted().Answer())
}

func (s *server) deletePoll(w http.ResponseWriter, r *http.Request) {
	epoch, ok := epochHeader(w, r)
	if !ok {
		return
	}

	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()

	if err := s.Node.Polls.Remove(ctx, r.PathValue("name"), epoch); err != nil {
		failPoll(w, err)
		return
	}

	s.Log.Info("poll removed", "poll", r.PathValue("name"), "remote", r.RemoteAddr)
	w.WriteHeader(http.StatusNoContent)
}

// runPoll runs a poll now and answers with the run, unless another term has begun since the caller read the epoch.
func (s *server) runPoll(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}

	var seen request
	if err := json.Unmarshal(body, &seen); err != nil || seen.Epoch == nil || *seen.Epoch == 0 {
		failNoEpoch(w)
		return
	}

	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()

	run, err := s.Node.Polls.RunNow(ctx, r.PathValue("name"), *seen.Epoch)
	if err != nil {
		failPoll(w, err)
		return
	}

	answer(w, http.StatusOK, run)
}

// epochHeader returns the epoch that a write names in the header Regent-Epoch, or 0 if it names none. If the header is
// no epoch, epochHeader answers the request and returns false.
func epochHeader(w http.ResponseWriter, r *http.Request) (epoch uint64, ok bool) {
	text := r.Header.Get(gate.EpochHeader)
	if text == "" {
		return 0, true
	}

	epoch, err := strconv.ParseUint(text, 10, 64)
	if err != nil || epoch == 0 {
		fail(w, http.StatusBadRequest, CodeInvalidRequest,
			fmt.Sprintf("%s %q: must be a number, from 1 on", gate.EpochHeader, text))
		return 0, false
	}

	return epoch, true
}

// failPoll answers a request about a poll that was not done.
func failPoll(w http.ResponseWriter, err error) {
	var moved *regent.MovedError
	if errors.As(err, &moved) {
		answer(w, http.StatusConflict, failure{Code: CodeEpochPassed, Error: err.Error(), Epoch: moved.Epoch})
		return
	}

	var bad *regent.ConfigError

	status, code := http.StatusBadGateway, CodeStore
	switch {
	case errors.As(err, &bad):
		status, code = http.StatusUnprocessableEntity, CodeRefused
	case errors.Is(err, orchestrate.ErrNoPoll):
		status, code = http.StatusNotFound, CodeUnknownPoll
	case errors.Is(err, orchestrate.ErrFixed):
		status, code = http.StatusConflict, CodePollInFile
	case errors.Is(err, orchestrate.ErrNotLeading), errors.Is(err, orchestrate.ErrStopping),
		errors.Is(err, regent.ErrNotLeader):
		w.Header().Set("Retry-After", "1")
		status, code = http.StatusServiceUnavailable, CodeNoLeader
	case errors.Is(err, context.DeadlineExceeded):
		status, code = http.StatusGatewayTimeout, CodeTimeout
	}

	fail(w, status, code, err.Error())
}
