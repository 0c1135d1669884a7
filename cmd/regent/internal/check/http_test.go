package check_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// site returns a web server with a page for each case.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	release := make(chan struct{})
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "all is well") })
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code := 0
		fmt.Sscan(r.PathValue("code"), &code)
		w.WriteHeader(code)
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/half", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "half")
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		line := strings.Repeat("x", 1<<10)
		for range 10 << 10 {
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}

		fmt.Fprint(w, "the end")
	})
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	mux.Handle("/moved", http.RedirectHandler("/ok", http.StatusFound))
	mux.Handle("/ftp", http.RedirectHandler("ftp://me:hush@x/", http.StatusFound))
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		fmt.Fprintf(w, "%s host=%s agent=%s token=%s user=%s:%s body=%s", r.Method, r.Host, r.UserAgent(),
			r.Header.Get("X-Token"), user, password, body)
	})
	s := httptest.NewUnstartedServer(mux)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(func() {
		close(release)
		s.Close()
	})

	return s
}

func TestHTTP(t *testing.T) {
	settles(t)
	s := site(t)
	s.Start()

	for _, c := range []struct {
		name, path string
		options    []string
		ok         bool
		message    string
	}{
		{"a_page_that_answers_is_fine", "/ok", nil, true, "status 200 OK"},
		{"a_page_that_contains_it", "/ok", []string{"contains", "is well"}, true, ""},
		{"a_page_that_does_not_contain_it", "/ok", []string{"contains", "is bad"}, false,
			`"is bad" is not in the body`},
		{"an_error_status", "/status/503", nil, false, "status 503 Service Unavailable, expected 200-399"},
		{"an_error_status_that_is_expected", "/status/503", []string{"status", "200,500-599"}, true, "status 503"},
		{"a_good_status_that_is_not_expected", "/ok", []string{"status", "204"}, false, "status 200 OK, expected 204"},
		{"a_redirect_is_followed", "/moved", []string{"contains", "well"}, true, "200"},
		{"a_redirect_is_not_followed_if_so_asked", "/moved", []string{"redirects", "false", "status", "302"}, true,
			"302"},
		{"a_loop_of_redirects_ends", "/loop", nil, false, "more than 10 redirects"},
		{"a_redirect_to_something_else", "/ftp", nil, false, `unsupported protocol scheme "ftp"`},
		{"a_body_that_ends_early", "/half", []string{"contains", "whole"}, false,
			"the body ended early: unexpected EOF"},
		{"a_big_body_is_not_read_to_its_end", "/big", []string{"contains", "the end"}, false,
			`"the end" is not in the first 64 KiB of the body`},
		{"HEAD_has_no_body", "/big", []string{"method", "HEAD"}, true, "200"},
		{"POST_sends_a_body", "/echo", []string{"method", "POST", "body", "ping", "contains",
			"POST host=" + strings.TrimPrefix(s.URL, "http://") + " agent=regent token= user=: body=ping"}, true, ""},
		{"headers_are_sent", "/echo", []string{"header.X-Token", "t", "header.host", "example.com", "header.User-Agent",
			"me", "contains", "host=example.com agent=me token=t"}, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := run(t, "http", s.URL+c.path, c.options...)
			found(t, o, c.ok, c.message)
			if o.Detail["address"] != s.Listener.Addr().String() {
				t.Errorf("address %s", o.Detail["address"])
			}
		})
	}

	t.Run("a_slow_page_is_not_waited_for_beyond_the_timeout", func(t *testing.T) {
		found(t, runFor(t, 50*time.Millisecond, "http", s.URL+"/slow"), false, "no answer in time")
	})

	t.Run("user_and_password_are_sent_and_not_said", func(t *testing.T) {
		url := strings.Replace(s.URL, "//", "//me:hush@", 1)
		found(t, run(t, "http", url+"/echo", "contains", "user=me:hush"), true, "")

		for _, path := range []string{"/status/500?hush", "/loop?hush", "/slow?hush", "/ftp?hush", "/%68ush?contains"} {
			o := runFor(t, 200*time.Millisecond, "http", url+path)
			if o.OK || strings.Contains(fmt.Sprint(o), "hush") {
				t.Errorf("%s: %+v", path, o)
			}
		}
	})

	t.Run("a_closed_port_is_said_in_short", func(t *testing.T) {
		o := run(t, "http", "http://me:hush@"+closed(t)+"/?hush")
		found(t, o, false, "connection refused")
		if strings.Contains(o.Message, "hush") || strings.Contains(o.Message, "Get") {
			t.Error(o.Message)
		}
	})

	t.Run("a_name_that_there_is_not_is_said_in_short", func(t *testing.T) {
		found(t, run(t, "http", "http://nowhere.invalid/"), false, "")
	})

	t.Run("cancelling_is_no_finding", func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, nil)
		time.AfterFunc(20*time.Millisecond, cancel)
		if o, err := checker().Run(ctx, "http", s.URL+"/slow", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%v %v", o, err)
		}
	})

	t.Run("a_proxy_in_the_environment_is_ignored", func(t *testing.T) {
		// TestMain sets a proxy, which no client uses for loopback. This address does not look like loopback.
		found(t, run(t, "http", strings.Replace(s.URL, "127.0.0.1", "0.0.0.0", 1)+"/ok"), true, "200")
	})
}

func TestHTTPConnections(t *testing.T) {
	settles(t)

	t.Run("each_check_makes_a_connection_of_its_own_and_leaves_none", func(t *testing.T) {
		var opened, closed atomic.Int32
		s := site(t)
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				opened.Add(1)
			case http.StateClosed:
				closed.Add(1)
			}
		}
		s.Start()

		for range 3 {
			found(t, run(t, "http", s.URL+"/ok"), true, "200")
		}
		deadline := time.Now().Add(5 * time.Second)
		for closed.Load() < 3 && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond) // there is no event for the end of a connection on the server
		}

		if opened.Load() != 3 || closed.Load() != 3 {
			t.Errorf("%d opened, %d closed", opened.Load(), closed.Load())
		}
	})

	t.Run("headers_for_one_host_are_not_sent_to_another", func(t *testing.T) {
		other := site(t)
		other.Start()
		mux := http.NewServeMux()
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/echo", http.StatusTemporaryRedirect)
		})
		s := httptest.NewServer(mux)
		defer s.Close()

		found(t, run(t, "http", s.URL, "header.X-Token", "hush", "header.Authorization", "Basic bWU6aHVzaA==",
			"contains", "agent=regent token= user=: "), true, "200")
	})

	t.Run("IPv6_works", func(t *testing.T) {
		l, err := net.Listen("tcp", "[::1]:0")
		if err != nil {
			t.Skip("no IPv6 here:", err)
		}

		s := site(t)
		_ = s.Listener.Close()
		s.Listener = l
		s.Start()
		found(t, run(t, "http", s.URL+"/ok"), true, "200")
	})
}

func TestHTTPS(t *testing.T) {
	settles(t)
	s := site(t)
	s.StartTLS()

	t.Run("a_certificate_that_nobody_vouches_for_is_refused", func(t *testing.T) {
		found(t, run(t, "http", s.URL+"/ok"), false, "certificate")
	})

	t.Run("unless_that_is_asked_for", func(t *testing.T) {
		o := run(t, "http", s.URL+"/ok", "insecureTLS", "true")
		found(t, o, true, "200")
		if expires, err := time.Parse(time.RFC3339, o.Detail["certificateExpires"]); err != nil ||
			!expires.Equal(s.Certificate().NotAfter) {
			t.Errorf("%v %v", expires, err)
		}
	})

	t.Run("http_to_a_TLS_port_fails", func(t *testing.T) {
		found(t, run(t, "http", strings.Replace(s.URL, "https", "http", 1)+"/ok"), false, "status 400")
	})
}
