package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/regentd/regent/cmd/regent/internal/elections"
	"github.com/regentd/regent/driver"
)

const (
	maxListed         = 1000 // elections in one answer, and candidates of each
	defaultCandidates = 20   // of each election in one answer
)

// listElections answers with the elections of the store, a page at a time.
func (s *server) listElections(w http.ResponseWriter, r *http.Request) {
	limit, ok := count(w, r, "limit", 1, maxListed)
	if !ok {
		return
	}

	candidates, ok := count(w, r, "candidates", 0, defaultCandidates)
	if !ok {
		return
	}

	after := r.URL.Query().Get("after")
	if after != "" && !driver.ValidName(after) {
		fail(w, http.StatusBadRequest, CodeInvalidRequest, fmt.Sprintf(
			"after=%.300q: must be the name of an election: 1 to %d bytes of UTF-8 without control characters",
			after, driver.MaxName))
		return
	}

	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()

	list, err := s.elections.List(ctx)
	if err != nil {
		fail(w, http.StatusBadGateway, CodeStore, err.Error())
		return
	}

	page := list.Page(elections.Selection{
		After: after, Limit: limit, Candidates: candidates, History: r.URL.Query().Get("history") != "",
	})
	page.Node = s.Node.Member.ID
	for i := range page.Elections {
		s.addOwn(&page.Elections[i])
	}

	answer(w, http.StatusOK, page)
}

// count returns a number of the query, from least to maxListed, or the default without it. If it is no such number,
// count answers the request and returns false.
func count(w http.ResponseWriter, r *http.Request, name string, least, otherwise int) (n int, ok bool) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, true
	}

	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > maxListed {
		fail(w, http.StatusBadRequest, CodeInvalidRequest,
			fmt.Sprintf("%s=%.100q: must be a number from %d to %d", name, text, least, maxListed))
		return 0, false
	}

	return n, true
}

// addOwn adds to the node's own election what the node knows better than a list shows: what is left of its own term, or
// the age of the leader's heartbeat, also for whoever asks for the first time.
func (s *server) addOwn(e *elections.Election) {
	if e.Name != s.Node.Election() {
		return
	}

	m := s.Node.Member
	if t, leads := m.Leads(e.Name); leads && e.Leader == m.ID && e.Epoch == t.Epoch {
		e.Heartbeat(0, t.Remaining())
		return
	}

	v, seen := m.View(e.Name)
	if !seen || v.Epoch != e.Epoch || v.Leader != e.Holder || e.State != elections.Led {
		return
	}

	if v.Expired {
		e.Expire()
		e.Why = elections.Explain(v)
	}
	if v.HeartbeatAge > 0 && e.HeartbeatAgeMs == nil {
		e.Heartbeat(v.HeartbeatAge, v.Lease-v.HeartbeatAge)
	}
}
