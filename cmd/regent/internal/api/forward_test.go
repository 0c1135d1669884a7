package api_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// frozen is a member that leads, and whose address accepts connections and never answers, as that of a stopped process.
type frozen struct {
	addr     string
	accepted chan net.Conn
	stop     func()
}

func freeze(t *testing.T, store driver.Store) *frozen {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	f := &frozen{addr: listener.Addr().String(), accepted: make(chan net.Conn, 100)}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			f.accepted <- c
		}
	}()

	leads := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)

	m := &regent.Member{Store: store, ID: "ice", Addr: f.addr, Config: regent.Cluster()}
	go func() {
		done <- m.Lead(ctx, "seat", func(ctx context.Context, _ regent.Term) error {
			close(leads)
			<-ctx.Done()
			return nil
		})
	}()

	f.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		for len(f.accepted) > 0 {
			_ = (<-f.accepted).Close()
		}
	})

	select {
	case <-leads:
	case <-time.After(time.Minute):
		t.Fatal("the member does not lead")
	}

	return f
}

// knows waits until the node knows who leads. It asks no other node.
func (f *testNode) knows(leader string) {
	f.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()

	for limit := time.Now().Add(time.Minute); f.Health().Leader != leader; <-tick.C {
		if time.Now().After(limit) {
			f.t.Fatalf("%+v", f.Health())
		}
	}
}

// TestFrozenLeader asks a standby for what its leader, which does not answer, would have to answer.
func TestFrozenLeader(t *testing.T) {
	t.Parallel()
	token := []string{"Authorization", "Bearer secret"}
	poll := `{"kind":"http","target":"http://127.0.0.1:1/","interval":"1h"}`

	t.Run("a_standby_answers_soon_and_names_the_leader_and_its_address", func(t *testing.T) {
		t.Parallel()
		store := memstore.New()
		ice := freeze(t, store)
		b := serve(t, store, "b", "secret")
		b.knows("ice")

		for _, c := range []struct {
			method, path, body string
			code               int
			want               string
		}{
			{"GET", "/v1/members", "", 200,
				"nobody checks the members: the leader, ice, has not answered at " + ice.addr},
			{"GET", "/v1/polls", "", 503, "no leader can be asked: the leader, ice, has not answered at " + ice.addr},
			{"PUT", "/v1/polls/x", poll, 504,
				"ice, has not answered at " + ice.addr + ": no answer in time: the outcome is unknown"},
			{"DELETE", "/v1/polls/x", "", 504, "the outcome is unknown"},
		} {
			t.Run(c.method+c.path, func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				code, body := b.ask(c.method, c.path, c.body, token...)

				took := time.Since(began)
				if code != c.code || !strings.Contains(fmt.Sprint(body), c.want) || took > 20*time.Second {
					t.Errorf("%d %v after %v", code, body, took)
				}
			})
		}
	})

	// ask sends a request through a standby. When the leader has it, the standby becomes the leader.
	ask := func(t *testing.T, method, path, body string, hangUp bool) (int, map[string]any, time.Duration, *testNode) {
		store := memstore.New()
		ice := freeze(t, store)
		b := serve(t, store, "b", "secret")
		b.knows("ice")
		type reply struct {
			code int
			body map[string]any
		}
		answered := make(chan reply, 1)
		began := time.Now()

		go func() {
			code, body := b.ask(method, path, body, token...)
			answered <- reply{code, body}
		}()

		conn := <-ice.accepted
		ice.stop()

		if hangUp {
			b.until("/leader", 200)
			_ = conn.Close()
		} else {
			defer conn.Close()
		}

		got := <-answered
		return got.code, got.body, time.Since(began), b
	}

	t.Run("a_standby_that_leads_by_then_answers_a_read_itself", func(t *testing.T) {
		t.Parallel()
		if code, body, _, _ := ask(t, "GET", "/v1/polls", "", true); code != 200 || body["polls"] == nil {
			t.Errorf("%d %v", code, body)
		}
	})

	t.Run("a_write_that_the_leader_may_have_got_is_not_done_again", func(t *testing.T) {
		t.Parallel()
		code, body, _, b := ask(t, "PUT", "/v1/polls/x", poll, true)
		if code/100 != 5 || !strings.Contains(fmt.Sprint(body), "the outcome is unknown") {
			t.Errorf("%d %v", code, body)
		}
		if code, body := b.ask("GET", "/v1/polls/x", ""); code != 404 {
			t.Errorf("the poll was written: %d %v", code, body)
		}
	})

	t.Run("a_run_is_given_up_when_another_member_leads", func(t *testing.T) {
		t.Parallel()
		code, body, took, _ := ask(t, "POST", "/v1/polls/x/run", `{"epoch": 1}`, false)
		if code != 504 || !strings.Contains(fmt.Sprint(body), "the outcome is unknown") || took > 25*time.Second {
			t.Errorf("%d %v after %v", code, body, took)
		}
	})
}
