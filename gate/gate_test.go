package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/gate"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// lead runs f while a member leads "orders" over the store.
func lead(t *testing.T, m *regent.Member, f func()) {
	t.Helper()
	if err := m.Lead(t.Context(), "orders", func(context.Context, regent.Term) error { f(); return nil }); err != nil {
		t.Error(err)
	}
}

func ask(h http.Handler, method, target string) (*http.Response, gate.Refusal) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader("body")))
	var body gate.Refusal
	_ = json.Unmarshal(w.Body.Bytes(), &body)
	return w.Result(), body
}

func TestGate(t *testing.T) {
	var writes atomic.Int32
	served := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		term, _ := gate.TermFrom(r.Context())
		if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions {
			writes.Add(1)
		}
		fmt.Fprintf(w, "served in %d", term.Epoch)
	})

	t.Run("L13_reads_are_served_anywhere_and_writes_on_the_leader_alone", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := memstore.New()
			a := &regent.Member{Store: store, ID: "a", Addr: "10.0.0.1:80"}
			b := &regent.Member{Store: store, ID: "b", Addr: "10.0.0.2:80"}
			onA := (&gate.Gate{Member: a, Election: "orders"}).Wrap(served)
			onB := (&gate.Gate{Member: b, Election: "orders", RetryAfter: 2500 * time.Millisecond}).Wrap(served)
			sendOn := (&gate.Gate{Member: b, Election: "orders", Redirect: true}).Wrap(served)

			if r, body := ask(onB, "POST", "/orders"); r.StatusCode != 503 || body.Leader != "" {
				t.Errorf("nobody leads: %d %+v", r.StatusCode, body)
			}

			lead(t, a, func() {
				for _, err := range b.Watch(t.Context(), "orders") {
					if err != nil {
						t.Error(err)
					}

					for _, h := range []http.Handler{onA, onB, sendOn} {
						for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
							if r, _ := ask(h, method, "/orders"); r.StatusCode != 200 {
								t.Errorf("%s: %d", method, r.StatusCode)
							}
						}
					}

					for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
						if r, _ := ask(onA, method, "/orders"); r.StatusCode != 200 ||
							r.Header.Get(gate.EpochHeader) != "1" {
							t.Errorf("%s on the leader: %d", method, r.StatusCode)
						}

						before := writes.Load()
						r, body := ask(onB, method, "/orders")
						if r.StatusCode != 503 || r.Header.Get("Retry-After") != "3" || body.Leader != "a" ||
							body.LeaderAddr != "10.0.0.1:80" || body.Epoch != 1 {
							t.Errorf("%s on a standby: %d %v %+v", method, r.StatusCode, r.Header, body)
						}

						r, body = ask(sendOn, method, "/orders/7%2F8?x=1&y=%20")
						if r.StatusCode != 307 ||
							r.Header.Get("Location") != "http://10.0.0.1:80/orders/7%2F8?x=1&y=%20" ||
							body.Leader != "a" {
							t.Errorf("%s redirected: %d %v %+v", method, r.StatusCode, r.Header, body)
						}

						if writes.Load() != before {
							t.Errorf("%s was carried out on a standby", method)
						}
					}

					break
				}
			})

			if r, _ := ask(onA, "POST", "/orders"); r.StatusCode != 503 {
				t.Errorf("after the term: %d", r.StatusCode)
			}
		})
	})

	t.Run("L13_a_write_that_outlives_its_term_is_answered_as_refused", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			m := &regent.Member{Store: memstore.New(), ID: "a"}
			stop, cancel := context.WithCancel(t.Context())
			slow := (&gate.Gate{Member: m, Election: "orders"}).Wrap(
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					cancel() // the node shuts down while it serves the request
					<-r.Context().Done()
					if !errors.Is(context.Cause(r.Context()), gate.ErrTermEnded) {
						t.Errorf("cause is %v", context.Cause(r.Context()))
					}
					w.Header().Set("X-Order", "7")
					w.WriteHeader(201)
					fmt.Fprint(w, "done")
				}))

			answered := make(chan struct{})
			go func() {
				defer close(answered)

				_ = m.Lead(stop, "orders", func(context.Context, regent.Term) error {
					r, body := ask(slow, "POST", "/orders")
					b, _ := io.ReadAll(r.Body)
					if r.StatusCode != 503 || r.Header.Get("X-Order") != "" ||
						!strings.Contains(body.Error, "may or may not") {
						t.Errorf("got %d %v %s", r.StatusCode, r.Header, b)
					}
					return nil
				})
			}()

			<-answered
		})
	})

	t.Run("a_handler_that_refuses_by_itself_is_left_alone", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			m := &regent.Member{Store: memstore.New(), ID: "a"}
			h := (&gate.Gate{Member: m, Election: "orders"}).Wrap(http.NotFoundHandler())
			lead(t, m, func() {
				if r, _ := ask(h, "POST", "/"); r.StatusCode != 404 {
					t.Errorf("got %d", r.StatusCode)
				}
			})
		})
	})
}

func TestAnswers(t *testing.T) {
	t.Run("a_handler_may_set_deadlines_before_it_decides_and_must_not_hijack", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			m := &regent.Member{Store: memstore.New(), ID: "a"}
			h := (&gate.Gate{Member: m, Election: "orders"}).Wrap(
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					c := http.NewResponseController(w)
					_ = c.SetReadDeadline(time.Now().Add(time.Second))
					if _, _, err := c.Hijack(); err == nil {
						t.Error("hijacked")
					}
					http.Error(w, "no", 500)
				}))

			lead(t, m, func() {
				if r, _ := ask(h, "POST", "/"); r.StatusCode != 500 {
					t.Errorf("got %d", r.StatusCode)
				}
			})
		})
	})

	t.Run("a_handler_that_writes_nothing_is_checked_too", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			m := &regent.Member{Store: memstore.New(), ID: "a"}
			stop, cancel := context.WithCancel(t.Context())
			h := (&gate.Gate{Member: m, Election: "orders"}).Wrap(
				http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					cancel()
					<-r.Context().Done()
				}))

			_ = m.Lead(stop, "orders", func(context.Context, regent.Term) error {
				if r, _ := ask(h, "POST", "/"); r.StatusCode != 503 {
					t.Errorf("got %d", r.StatusCode)
				}
				return nil
			})
		})
	})
}
