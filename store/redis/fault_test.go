package redis

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func contextOf(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

func TestSwallowedAnswers(t *testing.T) {
	p := startProxy(t, empty(t).addr())
	near, far := open(t, shared.url()), open(t, p.url())
	l := storetest.Swap(t, far, held("seat", "a", 1))
	notices := far.Subscribe(t.Context(), driver.Prefix("seat"))
	await(t, "subscribed", 5*time.Second, func() bool { return took(notices) })

	t.Run("a_swap_is_applied_and_its_outcome_unknown", func(t *testing.T) {
		p.swallow(true)
		defer p.swallow(false)

		ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
		defer cancel()

		next := l
		next.Nonce = 77
		began := time.Now()
		_, err := far.Swap(ctx, next)
		if err == nil || errors.Is(err, driver.ErrConflict) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Swap without an answer: %v", err)
		}

		if took := time.Since(began); took > 4500*time.Millisecond {
			t.Errorf("it returned after %v", took)
		}

		if got := get(t, near, "seat"); got.Nonce != 77 {
			t.Errorf("the register shows nonce %d", got.Nonce)
		}
	})

	t.Run("a_call_whose_connection_another_call_gives_up_says_that_no_answer_came", func(t *testing.T) {
		get(t, far, "seat") // it connects again
		p.swallow(true)
		defer p.swallow(false)

		waits := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := far.Swap(ctx, held("other", "a", 1)) // reads are sent again
			waits <- err
		}()

		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		_, _ = far.Get(ctx, "seat")
		if err := <-waits; err == nil || !strings.Contains(err.Error(), "no answer from 127.0.0.1:") {
			t.Errorf("Swap: %v", err)
		}
	})

	t.Run("the_register_tells_once_answers_come_again", func(t *testing.T) {
		// No answer ever comes over the old connection: the caller that timed out has closed it.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()

		got, err := far.Get(ctx, "seat")
		if err != nil || got.Nonce != 77 {
			t.Errorf("Get: %+v, %v", got, err)
		}

		refused(t, far, l)
		l = got
	})

	t.Run("notices_come_again", func(t *testing.T) {
		await(t, "a notice after connecting again", 5*time.Second, func() bool { return took(notices) })
		l.Epoch++
		l.Nonce++
		l = storetest.Swap(t, near, l)
		await(t, "a notice of a change", 5*time.Second, func() bool { return took(notices) })
	})

	t.Run("a_cancelled_call_returns_while_nothing_answers", func(t *testing.T) {
		p.swallow(true)
		defer p.swallow(false)

		p.cut() // so that the next call has to connect, and waits for a greeting
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := far.Get(ctx, "seat"); return err },
			func(ctx context.Context) error { _, err := far.Swap(ctx, l); return err },
			func(ctx context.Context) error { return listError(ctx, far) },
			func(ctx context.Context) error { return far.SwapAll(ctx, []driver.Record{l})[0].Err },
			func(ctx context.Context) error {
				s, err := Open(ctx, p.url(), Options{})
				if err == nil {
					s.Close()
				}
				return err
			},
		} {
			ctx, cancel := contextOf(t)
			stop := time.AfterFunc(50*time.Millisecond, cancel)
			began := time.Now()
			err := call(ctx)
			stop.Stop()
			if after := time.Since(began); after > 2500*time.Millisecond || err == nil {
				t.Errorf("after %v: %v", after, err)
			}

			cancel()
		}
	})
}

func listError(ctx context.Context, s *Store) error {
	for _, err := range s.List(ctx, "") {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestCutConnections(t *testing.T) {
	p := startProxy(t, empty(t).addr())
	near, far := open(t, shared.url()), open(t, p.url())
	l := storetest.Swap(t, near, held("seat", "a", 1))

	t.Run("a_read_goes_on", func(t *testing.T) {
		for range 5 {
			get(t, far, "seat")
			p.cut()
		}
	})

	t.Run("a_swap_goes_on", func(t *testing.T) {
		for range 5 {
			p.cut()
			await(t, "the connection is known to be dead", 5*time.Second, func() bool { return !far.conns.ready() })
			l.Nonce++
			l = storetest.Swap(t, far, l)
		}
	})

	t.Run("a_push_goes_on", func(t *testing.T) {
		notices := far.Subscribe(t.Context(), driver.Prefix("seat"))
		await(t, "subscribed", 5*time.Second, func() bool { return took(notices) })
		for range 3 {
			p.cut()
			await(t, "a notice after connecting again", 5*time.Second, func() bool { return took(notices) })
			l.Epoch++
			l.Nonce++
			l = storetest.Swap(t, near, l)
			await(t, "a notice of a change", 5*time.Second, func() bool { return took(notices) })
		}
	})

	t.Run("swaps_are_applied_once_or_not", func(t *testing.T) {
		tick := time.NewTicker(3 * time.Millisecond)
		defer tick.Stop()

		done := make(chan struct{})
		defer close(done)

		go func() {
			for {
				select {
				case <-tick.C:
					p.cut()
				case <-done:
					return
				}
			}
		}()

		applied, unsure := 0, 0
		for i := range 300 {
			l.Nonce = uint64(1000 + i) // never the same twice: what was sent before may still arrive
			next, err := far.Swap(t.Context(), l)
			got := get(t, near, "seat")
			switch {
			case err == nil && got.Rev == next.Rev:
				applied++
			case err == nil:
				t.Fatalf("swap %d was applied, the register shows %d", l.Nonce, got.Nonce)
			case errors.Is(err, driver.ErrConflict) && got.Nonce == l.Nonce:
				t.Fatalf("swap %d was refused, and applied", l.Nonce)
			default:
				unsure++
			}

			l = got
		}

		t.Logf("%d applied, %d unsure", applied, unsure)
	})
}

func TestRestart(t *testing.T) {
	srv := startServer(t, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, srv.url())
	if w := s.Warnings(); len(w) != 0 {
		t.Errorf("warnings of a server that keeps everything: %q", w)
	}

	own, via := held("own", "a", 1), held("via", "a", 1)
	own.Epoch = 41
	own.Data = []byte("checkpoint")
	via.Via = driver.MemberRegister("a")
	own = storetest.Swap(t, s, own)
	via = storetest.Swap(t, s, via)
	brief := held("brief", "a", 1)
	brief.Duration = 20 * time.Millisecond

	storetest.Swap(t, s, brief)
	notices := s.Subscribe(t.Context(), driver.Prefix(""))
	await(t, "subscribed", 5*time.Second, func() bool { return took(notices) })

	srv.stop(syscall.SIGKILL)
	if err := srv.start(); err != nil {
		t.Fatal(err)
	}

	if got := next(t, notices); !reflect.DeepEqual(got, driver.Record{}) {
		t.Errorf("after the restart %+v is notified of", got)
	}

	if got := get(t, s, "own"); got.Rev == own.Rev || got.Nonce != own.Nonce || got.Holder != own.Holder ||
		string(got.Data) != "checkpoint" {
		t.Errorf("own: %+v, want %+v", got, own)
	}

	if got := get(t, s, "via"); got.Rev != via.Rev {
		t.Errorf("via: %+v, want %+v", got, via)
	}

	// It may have been renewed, and the server may have lost that.
	if got := get(t, s, "brief"); got.Holder != brief.Holder || got.Epoch != brief.Epoch {
		t.Errorf("brief: %+v", got)
	}

	if left := pttl(t, raw(t, srv), "own"); left <= 0 || left > own.Duration {
		t.Errorf("own expires in %v", left)
	}

	own.Nonce++
	storetest.Swap(t, s, own)
	if got := storetest.Names(t, s, ""); len(got) != 3 {
		t.Errorf("List yields %q", got)
	}
}

func TestRevisionsAfterLoss(t *testing.T) {
	s := open(t, empty(t).url())
	c := raw(t, shared)
	first := storetest.Swap(t, s, held("seat", "a", 1))
	lost := first
	lost.Nonce++
	backup := ask(t, c, "GET", "{seat}:regent")

	lost = storetest.Swap(t, s, lost)
	// The server comes back in its old state.
	ask(t, c, "SET", "{seat}:regent", backup)
	other := first
	other.Nonce = lost.Nonce // even the same nonce
	other = storetest.Swap(t, s, other)
	if other.Rev == lost.Rev {
		t.Errorf("revision %q was used twice", lost.Rev)
	}

	refused(t, s, lost)
	empty(t)
	refused(t, s, other)
	if again := storetest.Swap(t, s, held("seat", "a", 1)); again.Rev == first.Rev {
		t.Errorf("revision %q was used twice", first.Rev)
	}
}
