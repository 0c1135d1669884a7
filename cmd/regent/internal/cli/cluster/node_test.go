package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/api"
)

// at returns a Node for a server.
func at(t *testing.T, address string) *Node {
	t.Helper()
	base, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return &Node{Base: base, Client: &http.Client{}}
}

// answering returns a Node whose server answers each request so.
func answering(t *testing.T, answer http.HandlerFunc) *Node {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return at(t, s.URL)
}

func TestFaults(t *testing.T) {
	t.Run("a_node_that_hangs_is_unreachable", func(t *testing.T) {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()

		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := at(t, "http://"+silent.Addr().String()).Status(ctx); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%v", err)
		}
	})

	t.Run("an_error_names_the_node_once_and_not_what_go_has_called", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()

		_, err = at(t, "http://"+l.Addr().String()).Status(t.Context())
		want := "node http://" + l.Addr().String() + " does not answer: connection refused"
		if !errors.Is(err, ErrUnreachable) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})

	t.Run("an_error_says_that_the_node_speaks_tls", func(t *testing.T) {
		s := httptest.NewTLSServer(http.NotFoundHandler())
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake fails
		t.Cleanup(s.Close)

		_, err := at(t, "http://"+s.Listener.Addr().String()).Status(t.Context())
		if err == nil || !strings.Contains(err.Error(), "name it as https://"+s.Listener.Addr().String()) {
			t.Error(err)
		}
	})

	t.Run("a_node_is_frozen_if_it_accepts_a_connection_and_does_not_answer", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		n := at(t, "http://"+l.Addr().String())
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if !n.Frozen(ctx) {
			t.Error("it hangs, and does not count as frozen")
		}

		_ = l.Close()
		if n.Frozen(t.Context()) {
			t.Error("a node that refuses connections counts as frozen")
		}
		if answering(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }).Frozen(t.Context()) {
			t.Error("a node that answers counts as frozen")
		}
	})

	t.Run("an_answer_that_breaks_off_is_unreachable", func(t *testing.T) {
		n := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"election":`)
		})
		if _, err := n.Status(t.Context()); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%v", err)
		}
	})

	t.Run("another_server_is_recognised", func(t *testing.T) {
		n := answering(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
		if _, err := n.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "is the address right?") {
			t.Errorf("%v", err)
		}
	})

	t.Run("an_error_that_is_no_json_is_shown", func(t *testing.T) {
		n := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "bad gateway of a proxy", http.StatusBadGateway)
		})
		if _, err := n.Members(t.Context()); err == nil || !strings.Contains(err.Error(), "bad gateway of a proxy") {
			t.Errorf("%v", err)
		}
	})

	t.Run("a_missing_token_says_how_to_give_it", func(t *testing.T) {
		n := answering(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer hush" {
				fmt.Fprint(w, "{}")
				return
			}
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"code":"unauthorized","error":"a proof is missing"}`)
		})
		err := n.Do(t.Context(), Pause, "x", 1, "")
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "--token-file or REGENT_TOKEN") {
			t.Errorf("%v", err)
		}

		n.Token = "hush"
		if err := n.Do(t.Context(), Pause, "x", 1, ""); err != nil {
			t.Errorf("with the token: %v", err)
		}
	})

	t.Run("names_are_escaped", func(t *testing.T) {
		path := ""
		n := answering(t, func(w http.ResponseWriter, r *http.Request) {
			path = r.URL.EscapedPath()
			fmt.Fprint(w, "{}")
		})
		if _, err := n.Record(t.Context(), "a/b ?"); err != nil || path != "/v1/elections/a%2Fb%20%3F" {
			t.Errorf("%v, %s", err, path)
		}
	})
}

func TestElections(t *testing.T) {
	t.Run("all_pages_are_read", func(t *testing.T) {
		n := answering(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/v1/status":
				fmt.Fprint(w, `{}`)
			case r.URL.Query().Get("after") == "":
				fmt.Fprint(w, `{"total":2,"next":"a","elections":[{"name":"a"}]}`)
			default:
				fmt.Fprint(w, `{"total":2,"elections":[{"name":"b"}]}`)
			}
		})
		all, err := n.Elections(t.Context())
		if err != nil || len(all.Elections) != 2 || all.Elections[1].Name != "b" {
			t.Errorf("%+v, %v", all, err)
		}
	})

	t.Run("a_list_that_is_older_than_its_node_is_asked_for_again", func(t *testing.T) {
		lists := 0
		n := answering(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/status" {
				fmt.Fprint(w, `{"election":"x","epoch":2,"leader":"b"}`)
				return
			}
			lists++
			fmt.Fprintf(w, `{"elections":[{"name":"x","epoch":%d,"leader":"b"}]}`, lists)
		})
		all, err := n.Elections(t.Context())
		if err != nil || all.Elections[0].Epoch != 2 || lists != 2 {
			t.Errorf("%+v, %v after %d lists", all, err, lists)
		}
	})
}

func TestEvents(t *testing.T) {
	var asked string
	n := answering(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("Last-Event-ID")
		fmt.Fprint(w, ": events of this node\n\nid: x-7\nevent: a:b\ndata: {\"kind\":\"a:b\",\"seq\":7}\n\n"+
			": keep-alive\n\n: "+api.EndOfKept+"\n\nevent: stream:gap\ndata: {\"kind\":\"stream:gap\"}\n\n")
	})

	var got []string
	for e, err := range n.Events(t.Context(), "x-6") {
		if err != nil {
			if !errors.Is(err, ErrUnreachable) {
				t.Errorf("%v", err)
			}
			break
		}
		if e.EndOfKept {
			got = append(got, "end")
			continue
		}
		got = append(got, e.ID+" "+string(e.Kind))
	}
	if asked != "x-6" || strings.Join(got, ",") != "x-7 a:b,end, stream:gap" {
		t.Errorf("after %q: %q", asked, got)
	}
}
