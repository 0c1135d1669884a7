package signed

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// wire sends requests, and keeps what became of them.
type wire struct {
	mu    sync.Mutex
	codes []int
	sent  []http.Header
	at    func(r *http.Request) // called before a request is sent
}

func (w *wire) send(r *http.Request) (*http.Response, error) {
	if w.at != nil {
		w.at(r)
	}

	resp, err := http.DefaultTransport.RoundTrip(r)
	w.mu.Lock()
	defer w.mu.Unlock()

	w.sent = append(w.sent, r.Header)
	if err == nil {
		w.codes = append(w.codes, resp.StatusCode)
	}
	return resp, err
}

// do sends a request to the member, and returns code and body of the answer.
func (w *wire) do(t *testing.T, s *Signer, server, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", server+"/v1/tasks", nil)
	if err != nil {
		t.Fatal(err)
	}

	resp, err := s.Do(w.send, r, member, addr, []byte(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()

	if resp.Header.Get(Header) != "" || r.Header.Get("Authorization") != "" {
		t.Errorf("the challenge is passed on: %v; or the caller's request was changed: %v", resp.Header, r.Header)
	}

	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func (w *wire) wants(t *testing.T, codes ...int) {
	t.Helper()
	if fmt.Sprint(w.codes) != fmt.Sprint(codes) {
		t.Errorf("answers were %v, want %v", w.codes, codes)
	}
	w.codes = nil
}

func TestDo(t *testing.T) {
	verifier := func() *Verifier { return NewVerifier(NewSecret(token), member, addr) }

	t.Run("the_first_request_is_sent_twice_and_the_next_ones_once", func(t *testing.T) {
		server := serve(t, verifier())
		s, w := NewSigner(NewSecret(token)), &wire{}
		for _, body := range []string{"a", "b", ""} {
			if code, answer := w.do(t, s, server.URL, body); code != 200 || answer != body {
				t.Errorf("%d %q", code, answer)
			}
		}
		w.wants(t, 401, 200, 200, 200)
	})

	t.Run("a_large_body_comes_again_in_full", func(t *testing.T) {
		server := serve(t, verifier())
		large := strings.Repeat("0123456789abcdef", 3<<16)
		for range 5 {
			s, w := NewSigner(NewSecret(token)), &wire{}
			if code, answer := w.do(t, s, server.URL, large); code != 200 || answer != large {
				t.Errorf("%d, %d bytes", code, len(answer))
			}
			w.wants(t, 401, 200)
		}
	})

	t.Run("a_receiver_that_was_started_again_costs_one_request", func(t *testing.T) {
		var now atomic.Pointer[Verifier]
		now.Store(verifier())
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			now.Load().Offer(w.Header())
			if err := now.Load().Verify(r, 1<<10); err != nil {
				w.Header().Set("WWW-Authenticate", Demand(err))
				w.WriteHeader(http.StatusUnauthorized)
			}
		}))

		t.Cleanup(server.Close)
		s, w := NewSigner(NewSecret(token)), &wire{}
		w.do(t, s, server.URL, "a")
		w.wants(t, 401, 200)
		now.Store(verifier())
		w.do(t, s, server.URL, "b")

		w.do(t, s, server.URL, "c")
		w.wants(t, 401, 200, 200)
	})

	t.Run("requests_at_once_all_arrive_while_the_challenge_changes", func(t *testing.T) {
		server := serve(t, verifier())
		s, w := NewSigner(NewSecret(token)), &wire{}
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				if code, answer := w.do(t, s, server.URL, fmt.Sprint(i)); code != 200 || answer != fmt.Sprint(i) {
					t.Errorf("%d: %d %q", i, code, answer)
				}
			})
		}

		all.Wait()
	})

	t.Run("the_first_try_is_of_no_use_once_the_second_was_taken", func(t *testing.T) {
		// Somebody on the way holds back a good request, answers as the receiver would, and lets the second one pass.
		v := verifier()
		server := serve(t, v)
		s, w := NewSigner(NewSecret(token)), &wire{}
		w.do(t, s, server.URL, "a")
		w.codes, w.sent = nil, nil

		var held message
		code := 0
		r, _ := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/v1/tasks", nil)
		resp, err := s.Do(func(r *http.Request) (*http.Response, error) {
			if held.header != nil {
				return w.send(r)
			}
			held = message{"POST", "/v1/tasks", "b", r.Header}
			return refusal(v.issuer.challenge(), demandFresh), nil
		}, r, member, addr, []byte("b"))
		if err == nil {
			code = resp.StatusCode
			resp.Body.Close()
		}

		if code != 200 {
			t.Fatal(code, err)
		}

		if code, body := held.send(t, server.URL); code != 401 || !strings.Contains(body, "not accepted twice") {
			t.Errorf("what was held back: %d %s", code, body)
		}
	})
}

// refusal is a 401.
func refusal(challenge, asks string) *http.Response {
	h := http.Header{"Www-Authenticate": {asks}}
	if challenge != "" {
		h[Header] = strings.Split(challenge, " | ")
	}
	return &http.Response{StatusCode: 401, Header: h, Body: http.NoBody}
}

func TestHostileReceivers(t *testing.T) {
	for _, c := range []struct {
		fact, asks string
		challenge  func(n int) string
		requests   int
	}{
		{"a_new_challenge_each_time", demandFresh, func(n int) string { return fmt.Sprint("c", n) }, 2},
		{"the_same_challenge_each_time", demandFresh, func(int) string { return "c" }, 2},
		{"a_challenge_with_another_reason", Scheme, func(n int) string { return fmt.Sprint("c", n) }, 1},
		{"no_challenge", demandFresh, func(int) string { return "" }, 1},
		{"two_challenges", demandFresh, func(int) string { return "a | b" }, 1},
		{"a_long_challenge", demandFresh, func(int) string { return strings.Repeat("a", 129) }, 1},
		{"a_challenge_with_a_comma", demandFresh, func(int) string { return "a,b" }, 1},
		{"a_challenge_with_a_line_break", demandFresh, func(int) string { return "a\nb" }, 1},
		{"a_challenge_with_a_letter_of_another_script", demandFresh, func(int) string { return "ä" }, 1},
	} {
		t.Run(c.fact+"_is_answered_once_at_most", func(t *testing.T) {
			s := NewSigner(NewSecret(token))
			sent := 0
			r := httptest.NewRequest("POST", "/v1/tasks", nil)
			resp, err := s.Do(func(*http.Request) (*http.Response, error) {
				sent++
				return refusal(c.challenge(sent), c.asks), nil
			}, r, member, addr, nil)
			if err != nil || resp.StatusCode != 401 || sent != c.requests {
				t.Errorf("%d requests, %v", sent, err)
			}
		})
	}

	t.Run("a_challenge_that_is_refused_again_is_not_tried_twice", func(t *testing.T) {
		s := NewSigner(NewSecret(token))
		sent := 0
		for range 3 {
			_, _ = s.Do(func(*http.Request) (*http.Response, error) { sent++; return refusal("c", demandFresh), nil },
				httptest.NewRequest("POST", "/v1/tasks", nil), member, addr, nil)
		}

		if sent != 4 {
			t.Errorf("%d requests", sent)
		}
	})

	t.Run("the_memory_of_challenges_is_bounded", func(t *testing.T) {
		s := NewSigner(NewSecret(token))
		for i := range maxReceivers + 100 {
			_, _ = s.Do(func(*http.Request) (*http.Response, error) { return refusal("c", Scheme), nil },
				httptest.NewRequest("POST", "/v1/tasks", nil), fmt.Sprint(i), addr, nil)
		}

		if n := len(s.known.last); n != maxReceivers {
			t.Errorf("%d are remembered", n)
		}

		if s.known.of(receiverOf(fmt.Sprint(maxReceivers+99), addr)) != "c" {
			t.Error("the last one is not")
		}
	})

	t.Run("a_challenge_is_kept_for_the_receiver_that_gave_it", func(t *testing.T) {
		s := NewSigner(NewSecret(token))
		for _, to := range [][2]string{{"a", "b"}, {"a", "x"}, {"x", "b"}} {
			_, _ = s.Do(func(r *http.Request) (*http.Response, error) {
				if !strings.Contains(r.Header.Get("Authorization"), ",challenge=,") {
					t.Errorf("%v gets that of another: %v", to, r.Header)
				}
				return refusal("c", Scheme), nil
			}, httptest.NewRequest("POST", "/v1/tasks", nil), to[0], to[1], nil)
		}
	})
}
