package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// opened waits until the connection for one swap at a time is open and not in use, and returns it.
func opened(t *testing.T, s *Store) *connection {
	t.Helper()
	await(t, "the connection for swaps is open", 10*time.Second, func() bool {
		s.direct.open()
		return s.direct.conn.Load() != nil && !s.direct.busy.Load()
	})
	return s.direct.conn.Load()
}

// killed makes the server close a connection, and waits until this end has heard of that.
func killed(t *testing.T, srv *server, c *connection) {
	t.Helper()
	cli(t, srv, "CLIENT", "KILL", "ADDR", c.LocalAddr().String())
	await(t, "it is closed", 10*time.Second, func() bool { return c.state.Load() == gone || !quiet(c.Conn) })
}

// sharedOf returns a connection for all calls.
func sharedOf(s *Store) *connection {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()

	for c := range s.conns.all {
		if !c.apart {
			return c
		}
	}
	return nil
}

func TestDirect(t *testing.T) {
	srv := empty(t)

	t.Run("a_swap_goes_over_it", func(t *testing.T) {
		s := open(t, srv.url())
		l := storetest.Swap(t, s, held("direct", "a", 1))
		c := opened(t, s)
		before := sharedOf(s)

		s.direct.usedAt = time.Time{}
		l.Nonce++
		storetest.Swap(t, s, l)
		if s.direct.usedAt.IsZero() || s.direct.conn.Load() != c || sharedOf(s) != before {
			t.Error("the swap has gone another way")
		}
	})

	t.Run("one_that_the_server_has_closed_is_not_used", func(t *testing.T) {
		s := open(t, srv.url())
		l := storetest.Swap(t, s, held("closed", "a", 1))
		killed(t, srv, opened(t, s))
		s.direct.usedAt = time.Time{} // long ago

		l.Nonce++
		storetest.Swap(t, s, l)
		opened(t, s) // another one
	})

	t.Run("it_is_closed_when_another_connection_is_lost", func(t *testing.T) {
		s := open(t, srv.url())
		storetest.Swap(t, s, held("lost", "a", 1))
		opened(t, s)
		killed(t, srv, sharedOf(s))
		await(t, "closed", 10*time.Second, func() bool { return s.direct.conn.Load() == nil })
	})

	t.Run("a_script_that_the_server_has_lost_is_sent_in_full", func(t *testing.T) {
		s := open(t, srv.url())
		l := storetest.Swap(t, s, held("script", "a", 1))
		opened(t, s)
		cli(t, srv, "SCRIPT", "FLUSH")
		l.Nonce++
		storetest.Swap(t, s, l)
	})

	t.Run("a_conflict_is_a_conflict", func(t *testing.T) {
		s := open(t, srv.url())
		l := storetest.Swap(t, s, held("conflict", "a", 1))
		c := opened(t, s)
		l.Rev = "another"
		if _, err := s.Swap(t.Context(), l); !errors.Is(err, driver.ErrConflict) {
			t.Errorf("Swap: %v", err)
		}
		if s.direct.conn.Load() != c {
			t.Error("the connection was closed")
		}
	})

	t.Run("swaps_at_once_are_all_applied", func(t *testing.T) {
		s := open(t, srv.url())
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				l := held(fmt.Sprint("at-once/", i), "a", 1)
				for range 50 {
					next, err := s.Swap(t.Context(), l)
					if err != nil {
						t.Error(err)
						return
					}
					l = next
					l.Nonce++
				}
			})
		}
		all.Wait()
	})

	t.Run("replicas_are_waited_for_without_it", func(t *testing.T) {
		s := storetest.Opened[*Store](t)(Open(t.Context(), srv.url()+"?replicas=1&replicaTimeout=10ms", Options{}))
		_, _ = s.Swap(t.Context(), held("replicas", "a", 1))
		s.direct.open()
		if s.direct.busy.Load() || s.direct.conn.Load() != nil {
			t.Error("it is opened")
		}
	})
}

// A server that answers nothing: the connection for swaps waits like any other.
func TestDirectWithoutAnswers(t *testing.T) {
	p := startProxy(t, empty(t).addr())
	hung := func(t *testing.T) (*Store, *connection, driver.Record) {
		s := open(t, p.url())
		l := storetest.Swap(t, s, held(t.Name(), "a", 1))
		c := opened(t, s)
		l.Nonce++
		p.swallow(true)
		t.Cleanup(func() { p.swallow(false) })
		return s, c, l
	}

	t.Run("a_cancelled_swap_returns", func(t *testing.T) {
		s, c, l := hung(t)
		ctx, cancel := contextOf(t)
		time.AfterFunc(50*time.Millisecond, cancel)

		_, err := s.Swap(ctx, l)
		if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "no answer within") {
			t.Errorf("Swap: %v", err)
		}
		if c.state.Load() != gone || s.direct.conn.Load() != nil {
			t.Error("the next swap could get its answer")
		}
	})

	t.Run("a_swap_ends_with_its_deadline", func(t *testing.T) {
		s, c, l := hung(t)
		before := sharedOf(s)
		ctx, cancel := context.WithTimeout(t.Context(), answerTimeout+200*time.Millisecond)
		defer cancel()

		_, err := s.Swap(ctx, l)
		if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "connect:") {
			t.Errorf("Swap: %v", err)
		}
		if c.state.Load() != gone {
			t.Error("the next swap could get its answer")
		}
		if before.state.Load() != gone {
			t.Error("the shared connection is trusted")
		}
	})

	t.Run("a_swap_without_a_deadline_ends_as_well", func(t *testing.T) {
		s, _, l := hung(t)
		if _, err := s.Swap(context.Background(), l); err == nil || !strings.Contains(err.Error(), "no answer within") {
			t.Errorf("Swap: %v", err)
		}
	})

	t.Run("close_ends_a_swap", func(t *testing.T) {
		s, c, l := hung(t)
		done := make(chan error, 1)
		go func() {
			_, err := s.Swap(context.Background(), l)
			done <- err
		}()

		await(t, "it waits", 10*time.Second, s.direct.busy.Load)
		s.Close()
		if c.state.Load() != gone {
			t.Error("it is still open")
		}
		if err := <-done; !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Swap: %v", err)
		}
	})
}
