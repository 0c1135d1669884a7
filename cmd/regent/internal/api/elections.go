package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/millis"
)

// serveElections adds the paths of elections: their records, and the verbs.
func (s *server) serveElections(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/elections", s.listElections)
	mux.HandleFunc("GET /v1/elections/{election}", s.election)
	mux.HandleFunc("GET /v1/elections/{election}/history", s.history)
	mux.Handle("POST /v1/elections/{election}/handoff", s.verb(handOff))
	mux.Handle("POST /v1/elections/{election}/step-down", s.verb(stepDown))
	mux.Handle("POST /v1/elections/{election}/pause", s.verb(pause))
	mux.Handle("POST /v1/elections/{election}/resume", s.verb(resume))
}

// Election is the answer of /v1/elections/{name}: the record, as the store shows it now.
type Election struct {
	Name        string        `json:"name"`
	Leader      string        `json:"leader"`
	Incarnation string        `json:"incarnation,omitempty"`
	LeaderAddr  string        `json:"leaderAddr,omitempty"`
	Epoch       uint64        `json:"epoch"`
	Since       time.Time     `json:"since,omitzero"`
	LeaseMs     float64       `json:"leaseDurationMs"`
	Via         string        `json:"via,omitempty"`
	Next        string        `json:"next,omitempty"`
	Paused      bool          `json:"paused"`
	Checkpoint  int           `json:"checkpointBytes"`
	Past        []driver.Past `json:"-"`
}

func (s *server) election(w http.ResponseWriter, r *http.Request) {
	if e, ok := s.record(w, r); ok {
		answer(w, http.StatusOK, e)
	}
}

func (s *server) history(w http.ResponseWriter, r *http.Request) {
	e, ok := s.record(w, r)
	if !ok {
		return
	}

	terms := e.Past
	if terms == nil {
		terms = []driver.Past{}
	}

	answer(w, http.StatusOK, map[string]any{"election": e.Name, "terms": terms})
}

// record reads the election that a request names. If it cannot, it answers the request and returns false.
func (s *server) record(w http.ResponseWriter, r *http.Request) (Election, bool) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()

	l, ok := s.read(ctx, w, r)
	if !ok {
		return Election{}, false
	}

	return Election{
		Name: l.Name, Leader: l.Holder.ID, Incarnation: l.Holder.Incarnation, LeaderAddr: l.Addr,
		Epoch: l.Epoch, Since: l.Since, LeaseMs: millis.Of(l.Duration), Via: l.Via,
		Next: l.Next, Paused: l.Paused, Checkpoint: len(l.Data), Past: l.Past,
	}, true
}

// read returns the record of the election that a request names. If it cannot, it answers the request and returns false.
// It creates nothing for a name that was mistyped.
func (s *server) read(ctx context.Context, w http.ResponseWriter, r *http.Request) (driver.Record, bool) {
	name := r.PathValue("election")
	if !driver.ValidName(name) {
		fail(w, http.StatusBadRequest, CodeInvalidRequest, fmt.Sprintf(
			"election %q: a name is 1 to %d bytes of UTF-8 without control characters", name, driver.MaxName))
		return driver.Record{}, false
	}

	err := driver.ErrNotFound
	var l driver.Record

	if !strings.HasPrefix(name, driver.Reserved) {
		l, err = s.Node.Member.Store.Get(ctx, name)
	}

	switch {
	case errors.Is(err, driver.ErrNotFound):
		fail(w, http.StatusNotFound, CodeUnknownElection, fmt.Sprintf("election %q was never held", name))
	case err != nil:
		fail(w, http.StatusBadGateway, CodeStore, err.Error())
	}

	l.Name = name

	return l, err == nil
}

// request is the body of a verb.
type request struct {
	Epoch *uint64 `json:"epoch"` // the one that the caller has seen
	To    string  `json:"to"`    // the successor, for a handoff
}

// verbFunc does what a verb asks for, on the condition that the epoch is still the one that the caller has seen.
type verbFunc func(ctx context.Context, m *regent.Member, l driver.Record, to string) error

func handOff(ctx context.Context, m *regent.Member, l driver.Record, to string) error {
	switch {
	case to == "":
		return fmt.Errorf(`to must name the successor: {"epoch": %d, "to": "node-b"}; step-down releases election %q `+
			"without one", l.Epoch, l.Name)
	case l.Paused:
		return fmt.Errorf("election %q is paused, so that nobody could take over: resume it first, or use step-down",
			l.Name)
	}

	return m.HandOff(ctx, l.Name, to, regent.AtEpoch(l.Epoch))
}

func stepDown(ctx context.Context, m *regent.Member, l driver.Record, _ string) error {
	return m.StepDown(ctx, l.Name, regent.AtEpoch(l.Epoch))
}

func pause(ctx context.Context, m *regent.Member, l driver.Record, _ string) error {
	return m.Pause(ctx, l.Name, regent.AtEpoch(l.Epoch))
}

func resume(ctx context.Context, m *regent.Member, l driver.Record, _ string) error {
	return m.Resume(ctx, l.Name, regent.AtEpoch(l.Epoch))
}

// verb returns the handler of a verb. It answers 409 if another term has begun since the caller read the epoch. It
// reads the record first only for the sake of a better answer: what counts is the condition that the verb itself runs
// under.
func (s *server) verb(run verbFunc) http.Handler {
	return s.authorized(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := decodeVerb(w, r)
		if !ok {
			return
		}

		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()

		l, ok := s.read(ctx, w, r)
		if !ok {
			return
		}

		if l.Epoch != *body.Epoch {
			text := fmt.Sprintf("epoch %d has passed: it is %d now", *body.Epoch, l.Epoch)
			answer(w, http.StatusConflict, failure{Code: CodeEpochPassed, Error: text, Epoch: l.Epoch})
			return
		}

		if why := s.cannotLead(ctx, l.Name, body.To); why != "" {
			failVerb(w, fmt.Errorf("hand off %s: %s", l.Name, why), l.Epoch)
			return
		}

		if err := run(ctx, s.Node.Member, l, body.To); err != nil {
			failVerb(w, err, l.Epoch)
			return
		}

		s.Log.Info("verb done", "verb", r.URL.Path, "remote", r.RemoteAddr, "epoch", l.Epoch)
		s.answerVerb(ctx, w, l.Name)
	}))
}

// cannotLead returns why a successor could not take over, as the leader sees it: its register may still show a healthy
// member whose process is dead or frozen. It returns nothing if it could, if no successor is named, or if nobody knows.
func (s *server) cannotLead(ctx context.Context, election, to string) string {
	if to == "" || election != s.Node.Election() {
		return ""
	}

	c, _ := s.leaderView(ctx)
	for _, m := range c.Members {
		if m.ID == to && (m.Status == health.Unreachable || m.Status == health.Gone) {
			return fmt.Sprintf("member %q is %s: %s; nothing was changed", to, m.Status, m.Why)
		}
	}

	return ""
}

// decodeVerb returns the body of a verb, which must name an epoch. If it does not, decodeVerb answers and returns
// false.
func decodeVerb(w http.ResponseWriter, r *http.Request) (request, bool) {
	var body request
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()

	var large *http.MaxBytesError
	switch err := d.Decode(&body); {
	case errors.As(err, &large):
		failTooLarge(w, large.Limit)
		return body, false
	case errors.Is(err, io.EOF), err == nil && body.Epoch == nil:
		failNoEpoch(w)
		return body, false
	case err != nil:
		fail(w, http.StatusBadRequest, CodeInvalidRequest, fmt.Sprintf("the body cannot be read: %v", err))
		return body, false
	}

	return body, true
}

// failVerb answers a verb that was not done.
func failVerb(w http.ResponseWriter, err error, epoch uint64) {
	var moved *regent.MovedError
	if errors.As(err, &moved) {
		answer(w, http.StatusConflict, failure{Code: CodeEpochPassed, Error: err.Error(), Epoch: moved.Epoch})
		return
	}

	answer(w, http.StatusUnprocessableEntity, failure{Code: CodeRefused, Error: err.Error(), Epoch: epoch})
}

// answerVerb answers a verb that was done with the record that it has left.
func (s *server) answerVerb(ctx context.Context, w http.ResponseWriter, election string) {
	l, err := s.Node.Member.Store.Get(ctx, election)
	if err != nil {
		fail(w, http.StatusBadGateway, CodeStore, "it was done, but the store does not show the result: "+err.Error())
		return
	}

	answer(w, http.StatusOK, map[string]any{
		"election": election, "leader": l.Holder.ID, "epoch": l.Epoch, "paused": l.Paused,
	})
}
