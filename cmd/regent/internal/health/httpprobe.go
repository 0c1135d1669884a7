package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/hostport"
)

// Limits of an answer: parts of it go into events and onto pages.
const (
	maxAnswer   = 64 << 10 // bytes
	maxProblems = 10
	maxText     = 200 // runes
)

// HTTPProbe returns a probe that requests /v1/status from a node. Without a client, each probe opens a connection of
// its own, without a proxy: an open connection may continue to work where a new one could not be made. Redirects are
// not followed.
func HTTPProbe(client *http.Client, scheme string) func(context.Context, regent.MemberView) (Report, error) {
	if client == nil {
		client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	}
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

	return func(ctx context.Context, v regent.MemberView) (Report, error) {
		if !hostport.Valid(v.Addr) {
			return Report{}, fmt.Errorf("its address must be host:port, and is %.100q", v.Addr)
		}
		where := url.URL{Scheme: scheme, Host: v.Addr, Path: "/v1/status", RawQuery: "local=1"}
		body, err := get(ctx, &own, where.String())
		if err != nil {
			return Report{}, err
		}

		return parseStatus(body, v.ID)
	}
}

// get returns the body of an answer with status 200, or of its beginning if it is longer than maxAnswer.
func get(ctx context.Context, client *http.Client, where string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL: the caller shows the address
		}
		return nil, err
	}
	defer resp.Body.Close()

	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read its answer: %w", err)
	}

	return body, nil
}

// status is the part of /v1/status that counts here.
type status struct {
	Node     string
	Role     string
	Version  string
	Election string
	Epoch    uint64
	Store    *struct{ Reachable bool }
	Checks   map[string]string

	HeartbeatP50Ms float64
	HeartbeatP99Ms float64
}

// parseStatus parses the answer of the node with an ID.
func parseStatus(body []byte, id string) (Report, error) {
	if len(body) > maxAnswer {
		return Report{}, fmt.Errorf("its answer has more than %d bytes", maxAnswer)
	}

	var s status
	if err := json.Unmarshal(body, &s); err != nil {
		return Report{}, fmt.Errorf("its answer is not a status: %w", err)
	}
	switch {
	case s.Node == "" || s.Role == "":
		return Report{}, errors.New("its answer is not a status: it has no node, or no role")
	case s.Node != id:
		// An address such as [::]:8080 leads every node to itself.
		return Report{}, fmt.Errorf("the node %s answers there: check the address that %s advertises", oneLine(s.Node),
			id)
	}

	problems := s.problems()
	return Report{
		Role:     oneLine(s.Role),
		Version:  oneLine(s.Version),
		Election: s.Election,
		Epoch:    s.Epoch,
		Healthy:  len(problems) == 0,
		Problems: problems,

		HeartbeatP50Ms: max(0, s.HeartbeatP50Ms),
		HeartbeatP99Ms: max(0, s.HeartbeatP99Ms),
	}, nil
}

// problems returns the checks that fail.
func (s *status) problems() []string {
	var problems []string
	for name, result := range s.Checks {
		if result != "ok" {
			problems = append(problems, oneLine(name)+": "+oneLine(result))
		}
	}
	slices.Sort(problems)
	problems = problems[:min(len(problems), maxProblems)]

	aboutStore := func(p string) bool { return strings.HasPrefix(p, "store: ") }
	if s.Store != nil && !s.Store.Reachable && !slices.ContainsFunc(problems, aboutStore) {
		problems = append(problems, "store: not reachable")
	}

	return problems
}

// oneLine returns a text from another node as one short line of printable characters.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if runes := []rune(s); len(runes) > maxText {
		return string(runes[:maxText]) + "…"
	}

	return s
}
