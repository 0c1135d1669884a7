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
	"github.com/regentd/regent/driver"
)

// Election is the answer of /v1/elections/{name}: the record, as the store shows it now.
type Election struct {
	Name        string        `json:"name"`
	Leader      string        `json:"leader"`
	Incarnation string        `json:"incarnation,omitempty"`
	LeaderAddr  string        `json:"leaderAddr,omitempty"`
	Epoch       uint64        `json:"epoch"`
	Since       time.Time     `json:"since,omitzero"`
	Lease       string        `json:"leaseDuration"`
	Via         string        `json:"via,omitempty"`
	Next        string        `json:"next,omitempty"`
	Paused      bool          `json:"paused"`
	Checkpoint  int           `json:"checkpointBytes"`
	Past        []driver.Past `json:"-"`
}

// record reads an election from the store.
func (s *server) record(w http.ResponseWriter, r *http.Request) (Election, bool) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	name, ok := electionName(w, r)
	if !ok {
		return Election{}, false
	}
	l, err := s.Node.Member.Store.Get(ctx, name)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		answer(w, http.StatusNotFound, neverHeld(name))
		return Election{}, false
	case err != nil:
		answer(w, http.StatusBadGateway, failure{Error: err.Error()})
		return Election{}, false
	}
	return Election{Name: name, Leader: l.Holder.ID, Incarnation: l.Holder.Incarnation, LeaderAddr: l.Addr, Epoch: l.Epoch, Since: l.Since,
		Lease: l.Duration.String(), Via: l.Via, Next: l.Next, Paused: l.Paused, Checkpoint: len(l.Data), Past: l.Past}, true
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

// request is the body of a write verb.
type request struct {
	Epoch *uint64 `json:"epoch"` // the one that the caller has seen
	To    string  `json:"to"`
}

// verb runs one of the verbs, unless the election has moved on since its caller looked. It looks first for the sake of a better answer; what
// counts is the condition that the verb itself runs under.
func (s *server) verb(run func(context.Context, *regent.Member, string, request) error) http.Handler {
	return s.authorized(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body request
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		var tooLarge *http.MaxBytesError
		switch err := d.Decode(&body); {
		case errors.As(err, &tooLarge):
			answer(w, http.StatusRequestEntityTooLarge, failure{Error: fmt.Sprintf("the body has more than %d bytes", maxBody)})
			return
		case errors.Is(err, io.EOF), err == nil && body.Epoch == nil:
			answer(w, http.StatusBadRequest, failure{Error: `the body must be JSON with the epoch that you have seen: {"epoch": 7}`})
			return
		case err != nil:
			answer(w, http.StatusBadRequest, failure{Error: fmt.Sprintf("the body cannot be read: %v", err)})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		election, ok := electionName(w, r)
		if !ok {
			return
		}
		l, err := s.Node.Member.Store.Get(ctx, election)
		switch {
		case errors.Is(err, driver.ErrNotFound): // nothing is made of a name that was mistyped
			answer(w, http.StatusNotFound, neverHeld(election))
			return
		case err != nil:
			answer(w, http.StatusBadGateway, failure{Error: err.Error()})
			return
		case l.Epoch != *body.Epoch:
			answer(w, http.StatusConflict, failure{Error: fmt.Sprintf("epoch %d has passed: it is %d now", *body.Epoch, l.Epoch), Epoch: l.Epoch})
			return
		}
		var moved *regent.MovedError
		if err := run(ctx, s.Node.Member, election, body); errors.As(err, &moved) {
			answer(w, http.StatusConflict, failure{Error: err.Error(), Epoch: moved.Epoch})
			return
		} else if err != nil {
			answer(w, http.StatusUnprocessableEntity, failure{Error: err.Error(), Epoch: l.Epoch})
			return
		}
		s.Log.Info("verb done", "verb", r.URL.Path, "remote", r.RemoteAddr, "epoch", l.Epoch)
		if l, err = s.Node.Member.Store.Get(ctx, election); err != nil {
			answer(w, http.StatusBadGateway, failure{Error: "it was done, but the store does not tell the result: " + err.Error()})
			return
		}
		answer(w, http.StatusOK, map[string]any{"election": election, "leader": l.Holder.ID, "epoch": l.Epoch, "paused": l.Paused})
	}))
}

// neverHeld says that there is no such election.
func neverHeld(name string) failure {
	return failure{Error: fmt.Sprintf("election %q was never held", name)}
}

// electionName returns the election that a request names. It answers itself if there can be none of that name.
func electionName(w http.ResponseWriter, r *http.Request) (name string, ok bool) {
	name = r.PathValue("election")
	switch {
	case !driver.ValidName(name):
		none := fmt.Sprintf("election %q: there can be none of this name", name)
		answer(w, http.StatusBadRequest, failure{Error: none})
		return "", false
	case strings.HasPrefix(name, "regent/"): // a register of Regent's own
		answer(w, http.StatusNotFound, neverHeld(name))
		return "", false
	}
	return name, true
}
