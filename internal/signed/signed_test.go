package signed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	token  = "a token that is long enough"
	member = "node, \"a\"/ü=1"
	addr   = "[::1]:7468"
)

// serve starts a real server that answers 200 to what its verifier accepts, and 401 with the reason to everything else.
func serve(t *testing.T, v *Verifier) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.Offer(w.Header())
		if err := v.Verify(r, 4<<20); err != nil {
			w.Header().Set("WWW-Authenticate", Demand(err))
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		_, _ = io.Copy(w, r.Body)
	}))

	t.Cleanup(s.Close)
	return s
}

// message is a signed request, before it is sent.
type message struct {
	method, path, body string
	header             http.Header
}

// signedFor signs as a Signer does, with a challenge of this verifier.
func signedFor(t *testing.T, v *Verifier, number uint64) message {
	t.Helper()
	return signedWith(t, v.issuer.challenge(), number)
}

// signedWith signs as a Signer does, with this challenge.
func signedWith(t *testing.T, challenge string, number uint64) message {
	t.Helper()
	m := message{"POST", "/v1/tasks?x=1", `{"epoch":7}`, http.Header{"Regent-Epoch": {"7"}}}
	s := NewSigner(NewSecret(token))
	s.number.Store(number - 1)
	s.known.last = map[receiver]string{receiverOf(member, addr): challenge}
	_, err := s.Do(func(r *http.Request) (*http.Response, error) {
		m.header = r.Header
		return &http.Response{Body: http.NoBody}, nil
	}, m.request(t, "http://x"), member, addr, []byte(m.body))
	if err != nil {
		t.Fatal(err)
	}

	return m
}

func (m message) request(t *testing.T, server string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), m.method, server+m.path, strings.NewReader(m.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = m.header.Clone()
	return r
}

// send returns the status and the body of the answer.
func (m message) send(t *testing.T, server string) (int, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(m.request(t, server))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// authorization changes the header by a pattern.
func (m *message) authorization(pattern, to string) {
	was := m.header.Get("Authorization")
	now := regexp.MustCompile(pattern).ReplaceAllString(was, to)
	if now == was {
		panic(pattern + " changes nothing in " + was)
	}
	m.header.Set("Authorization", now)
}

func TestVerify(t *testing.T) {
	t.Run("a_signed_request_is_accepted_with_its_body", func(t *testing.T) {
		v := NewVerifier(NewSecret(token), member, addr)
		s := serve(t, v)
		if code, body := signedFor(t, v, 1).send(t, s.URL); code != 200 || body != `{"epoch":7}` {
			t.Errorf("got %d %s", code, body)
		}
	})

	t.Run("the_token_is_nowhere_in_it", func(t *testing.T) {
		if text := fmt.Sprint(signedWith(t, "", 1)); strings.Contains(text, token) || strings.Contains(text, "long") {
			t.Error(text)
		}
	})

	for _, c := range []struct {
		fact   string
		change func(m *message)
		says   string
	}{
		{"another_body", func(m *message) { m.body = `{"epoch":8}` }, "body is not the one"},
		{"a_longer_body", func(m *message) { m.body += " " }, "body is not the one"},
		{"no_body", func(m *message) { m.body = "" }, "body is not the one"},
		{"another_path", func(m *message) { m.path = "/v1/elections/x/step-down?x=1" }, "does not match"},
		{"a_path_in_another_form", func(m *message) { m.path = "/v1/%74asks?x=1" }, "does not match"},
		{"another_query", func(m *message) { m.path = "/v1/tasks?x=2" }, "does not match"},
		{"another_method", func(m *message) { m.method = "PUT" }, "does not match"},
		{"another_epoch", func(m *message) { m.header.Set("Regent-Epoch", "8") }, "does not match"},
		{"a_header_of_regent_less", func(m *message) { m.header.Del("Regent-Epoch") }, "does not match"},
		{"a_header_of_regent_more", func(m *message) { m.header.Set("Regent-Forwarded", "b") }, "does not match"},
		{"a_header_twice", func(m *message) { m.header.Add("Regent-Epoch", "7") }, "does not match"},
		{"another_challenge", func(m *message) { m.authorization(`challenge=....`, "challenge=AAAB") },
			"does not match"},
		{"no_challenge", func(m *message) { m.authorization(`challenge=[^,]*`, "challenge=") }, "does not match"},
		{"a_malformed_challenge", func(m *message) { m.authorization(`challenge=.`, "challenge=+") }, "cannot be read"},
		{"a_long_challenge", func(m *message) { m.authorization(`challenge=`, "challenge="+strings.Repeat("A", 128)) },
			"cannot be read"},
		{"another_number", func(m *message) { m.authorization(`number=\d+`, "number=99") }, "does not match"},
		{"another_session", func(m *message) { m.authorization(`session=..`, "session=zz") }, "does not match"},
		{"another_receiver", func(m *message) { m.authorization(`to=[^,]*`, "to=b") }, "does not match"},
		{"another_digest", func(m *message) { m.authorization(`body=....`, "body=0000") }, "does not match"},
		{"a_truncated_signature", func(m *message) { m.authorization(`mac=(.*)..$`, "mac=$1") }, "does not match"},
		{"half_a_byte_less", func(m *message) { m.authorization(`mac=(.*).$`, "mac=$1") }, "cannot be read"},
		{"an_empty_signature", func(m *message) { m.authorization(`mac=.*`, "mac=") }, "does not match"},
		{"a_longer_signature", func(m *message) { m.authorization(`$`, "00") }, "does not match"},
		{"number_0", func(m *message) { m.authorization(`number=\d+`, "number=0") }, "cannot be read"},
		{"a_field_more", func(m *message) { m.authorization(`$`, ",x=1") }, "cannot be read"},
		{"a_huge_header", func(m *message) { m.authorization(`to=`, "to="+strings.Repeat("a", 5000)) },
			"cannot be read"},
		{"two_headers", func(m *message) { m.header.Add("Authorization", m.header.Get("Authorization")) },
			"not signed"},
		{"no_header", func(m *message) { m.header.Del("Authorization") }, "not signed"},
		{"the_token_itself", func(m *message) { m.header.Set("Authorization", "Bearer "+token) },
			"older version of Regent"},
	} {
		t.Run(c.fact+"_is_refused", func(t *testing.T) {
			v := NewVerifier(NewSecret(token), member, addr)
			s := serve(t, v)
			m := signedFor(t, v, 1)
			c.change(&m)
			if code, body := m.send(t, s.URL); code != 401 || !strings.Contains(body, c.says) {
				t.Errorf("got %d %s, want 401 and %q", code, body, c.says)
			}
		})
	}

	for _, c := range []struct{ fact, token, id, addr, says string }{
		{"another_token", "another token of this length", member, addr, "does not match"},
		{"a_receiver_without_a_token", "", member, addr, "does not match"},
		{"another_member", token, "node-b", addr, `signed for member ` + member + `, and this is node-b`},
		{"another_address", token, member, "10.0.0.1:7468",
			"signed for the address [::1]:7468, and this node's is 10.0.0.1:7468"},
	} {
		t.Run(c.fact+"_refuses_it", func(t *testing.T) {
			v := NewVerifier(NewSecret(c.token), c.id, c.addr)
			s := serve(t, v)
			if code, body := signedFor(t, v, 1).send(t, s.URL); code != 401 || !strings.Contains(body, c.says) {
				t.Errorf("got %d %s, want 401 and %q", code, body, c.says)
			}
		})
	}

	t.Run("a_body_beyond_the_limit_is_refused", func(t *testing.T) {
		v := NewVerifier(NewSecret(token), member, addr)
		m := signedFor(t, v, 1)
		r := httptest.NewRequest(m.method, m.path, strings.NewReader(m.body))
		r.Header = m.header
		var large *http.MaxBytesError
		if err := v.Verify(r, 4); !errors.As(err, &large) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("a_token_that_is_replaced_counts_at_once", func(t *testing.T) {
		secret := NewSecret("before")
		v := NewVerifier(secret, member, addr)
		s := serve(t, v)
		if code, _ := signedFor(t, v, 1).send(t, s.URL); code != 401 {
			t.Errorf("before: %d", code)
		}

		secret.Set(token)
		if code, _ := signedFor(t, v, 1).send(t, s.URL); code != 200 {
			t.Errorf("after: %d", code)
		}
	})
}

func TestReplay(t *testing.T) {
	t.Run("a_request_is_accepted_once", func(t *testing.T) {
		v := NewVerifier(NewSecret(token), member, addr)
		s := serve(t, v)
		m := signedFor(t, v, 1)
		if code, body := m.send(t, s.URL); code != 200 {
			t.Fatal(code, body)
		}

		for range 3 {
			if code, body := m.send(t, s.URL); code != 401 || !strings.Contains(body, "not accepted twice") {
				t.Errorf("got %d %s", code, body)
			}
		}
	})

	t.Run("of_many_copies_at_once_one_is_accepted", func(t *testing.T) {
		v := NewVerifier(NewSecret(token), member, addr)
		s := serve(t, v)
		m := signedFor(t, v, 1)
		var all sync.WaitGroup
		codes := make(chan int, 20)
		for range cap(codes) {
			all.Go(func() { code, _ := m.send(t, s.URL); codes <- code })
		}

		all.Wait()
		close(codes)
		accepted := 0
		for code := range codes {
			if code == 200 {
				accepted++
			}
		}

		if accepted != 1 {
			t.Errorf("%d were accepted", accepted)
		}
	})

	t.Run("requests_may_overtake_each_other", func(t *testing.T) {
		var n numbers
		for _, number := range []uint64{3, 1, 2, 1024, 1000, 1026, 4} {
			if !n.take(number) {
				t.Errorf("%d is refused", number)
			}
		}

		for _, number := range []uint64{1, 2, 3, 4, 1000, 1024, 1026} {
			if n.take(number) {
				t.Errorf("%d is accepted twice", number)
			}
		}

		if !n.take(1<<40) || n.take(1<<40) || n.take(1<<40-replayWindow) || !n.take(1<<40-replayWindow+1) {
			t.Error("a long way ahead")
		}
	})

	t.Run("every_number_is_accepted_once_in_any_order", func(t *testing.T) {
		var n numbers
		accepted := map[uint64]bool{}
		for i := range uint64(20_000) {
			number := 1 + i/2 + i*7919%900
			if took := n.take(number); took == accepted[number] {
				t.Fatalf("%d was accepted before: %v, and is now: %v", number, accepted[number], took)
			}
			accepted[number] = true
		}
	})

	t.Run("the_memory_is_bounded_and_full_means_refused", func(t *testing.T) {
		v := NewVerifier(NewSecret(token), member, addr)
		for i := range maxSessions {
			if err := v.checkReplay(&claims{session: fmt.Sprintf("%032d", i), number: 1}); err != nil {
				t.Fatal(err)
			}
		}

		if err := v.checkReplay(&claims{session: "one more", number: 1}); err == nil ||
			!strings.Contains(err.Error(), "4096 senders") {
			t.Errorf("got %v", err)
		}

		if err := v.checkReplay(&claims{session: fmt.Sprintf("%032d", 7), number: 2}); err != nil {
			t.Errorf("one that is known: %v", err)
		}

		v.seen[fmt.Sprintf("%032d", 8)].last = time.Now().Add(-Lifetime - time.Second)
		if err := v.checkReplay(&claims{session: "one more", number: 1}); err != nil {
			t.Errorf("after one was forgotten: %v", err)
		}
	})
}

func TestRefused(t *testing.T) {
	answer := func(code int, asked ...string) error {
		return Refused(&http.Response{StatusCode: code, Header: http.Header{"Www-Authenticate": asked}})
	}
	if err := answer(401, "Bearer"); err == nil || !strings.Contains(err.Error(), "older version") {
		t.Errorf("got %v", err)
	}

	if err := errors.Join(answer(401, Scheme), answer(401, demandFresh), answer(401, "Bearer", Scheme), answer(401),
		answer(200, "Bearer"), answer(403, "Bearer")); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	c := claims{to: "a", addr: "b", challenge: "a-_9", session: strings.Repeat("0", 32), number: 1, body: digest(nil)}
	f.Add(strings.TrimPrefix(c.header([]byte{1}), Scheme+" "))
	c.challenge = ""
	f.Add(strings.TrimPrefix(c.header([]byte{1}), Scheme+" "))
	f.Fuzz(func(t *testing.T, header string) {
		c, mac, ok := parse(header)
		if !ok {
			return
		}
		again, second, ok := parse(strings.TrimPrefix(c.header(mac), Scheme+" "))
		if !ok || again != c || !bytes.Equal(mac, second) {
			t.Errorf("%q became %+v and %+v", header, c, again)
		}
	})
}
