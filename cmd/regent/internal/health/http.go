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

// What is read of an answer, and kept of it: it goes into events and onto pages.
const (
	maxAnswer   = 64 << 10
	maxProblems = 10
	maxText     = 200 // runes
)

// HTTPProbe returns a probe that asks a node for its /v1/status. With no client, each probe makes a connection of its own, past any proxy: a
// connection that is kept may go on working where no new one could be made. Redirects are not followed.
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
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
		if err != nil {
			return Report{}, err
		}
		resp, err := own.Do(req)
		if err != nil {
			var u *url.Error
			if errors.As(err, &u) {
				err = u.Err // the address is told beside it
			}
			return Report{}, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return Report{}, fmt.Errorf("it answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
		if err != nil {
			return Report{}, fmt.Errorf("read its answer: %w", err)
		}
		return decode(body, v.ID)
	}
}

// decode reads the answer of the node that should be id.
func decode(body []byte, id string) (Report, error) {
	if len(body) > maxAnswer {
		return Report{}, fmt.Errorf("its answer has more than %d bytes", maxAnswer)
	}
	var s struct {
		Node     string
		Role     string
		Version  string
		Election string
		Epoch    uint64
		Store    *struct{ Reachable bool }
		Checks   map[string]string
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return Report{}, fmt.Errorf("its answer is no status: %w", err)
	}
	switch {
	case s.Node == "" || s.Role == "":
		return Report{}, errors.New("its answer is no status: it names no node, or no role")
	case s.Node != id:
		// An address such as [::]:8080 leads everybody to themselves.
		return Report{}, fmt.Errorf("the node %s answers there: check the address that %s advertises", brief(s.Node), id)
	}
	r := Report{Role: brief(s.Role), Version: brief(s.Version), Election: s.Election, Epoch: s.Epoch}
	for name, says := range s.Checks {
		if says != "ok" {
			r.Problems = append(r.Problems, brief(name)+": "+brief(says))
		}
	}
	slices.Sort(r.Problems)
	r.Problems = r.Problems[:min(len(r.Problems), maxProblems)]
	if s.Store != nil && !s.Store.Reachable && !slices.ContainsFunc(r.Problems, func(p string) bool { return strings.HasPrefix(p, "store: ") }) {
		r.Problems = append(r.Problems, "store: not reachable")
	}
	r.Healthy = len(r.Problems) == 0
	return r, nil
}

// brief cuts what a stranger says to one short line.
func brief(s string) string {
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
