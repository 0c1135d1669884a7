package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/regentd/regent/driver"
)

var contextChecks = []check{
	{"an_ended_context_sends_nothing", func(r *rig) {
		s := r.client()
		l := r.swap(s, taken("seat", 1))
		cancelled, cancel := context.WithCancel(r.ctx)
		cancel()
		late, cancel := context.WithDeadline(r.ctx, time.Now().Add(-time.Second))
		defer cancel()

		for _, ctx := range []context.Context{cancelled, late} {
			ended := func(call string, err error) {
				r.Helper()
				if !errors.Is(err, ctx.Err()) || errors.Is(err, driver.ErrConflict) ||
					errors.Is(err, driver.ErrNotFound) {
					r.Errorf("%s after the context has ended: %v, want %v and nothing else", call, err, ctx.Err())
				}
			}

			r.mustReturn("calls after their context has ended", func() {
				_, err := s.Get(ctx, "seat")
				ended("Get", err)
				_, err = s.Get(ctx, "none")
				ended("Get of nothing", err)
				_, err = s.Swap(ctx, renewed(l))
				ended("Swap", err)

				_, err = s.Swap(ctx, taken("seat", 2))
				ended("Swap at an empty revision", err)
				_, err = s.Swap(ctx, taken("none", 3))
				ended("Swap of nothing", err)
				ended("List", listError(s, ctx))

				if b, ok := s.(driver.Batcher); ok {
					for _, o := range b.SwapAll(ctx, []driver.Record{renewed(l), taken("none", 4)}) {
						ended("SwapAll", o.Err)
					}
				}
			})
		}

		if got := r.get(s, "seat"); got.Rev != l.Rev || got.Nonce != 1 {
			r.Errorf("a swap was applied after its context had ended: %+v", got)
		}

		if got, err := s.Get(r.ctx, "none"); !errors.Is(err, driver.ErrNotFound) {
			r.Errorf("a register was created after its context had ended: %+v, %v", got, err)
		}
	}},
	{"a_cancelled_swap_is_applied_or_not", func(r *rig) {
		s := r.client()
		begin := time.Now()
		l := r.swap(s, taken("seat", 1))
		usual := max(time.Since(begin), 50*time.Microsecond)
		unsure := map[uint64]bool{} // nonces of attempts that may have been applied, or may still be

		for i := range 150 {
			next := l
			next.Nonce = uint64(i) + 2
			ctx, cancel := context.WithCancel(r.ctx)

			// From immediately to well after the usual answer, so that the context ends in every phase of some swap.
			stop := time.AfterFunc(usual*time.Duration(i)/75, cancel)
			var err error
			r.mustReturn("a swap that is cancelled", func() { _, err = s.Swap(ctx, next) })
			stop.Stop()
			cancel()

			got := r.get(s, "seat")
			switch mine := got.Nonce == next.Nonce; {
			case err == nil && !mine && !unsure[got.Nonce]:
				r.Errorf("swap %d was applied, and the register shows nonce %d", next.Nonce, got.Nonce)
			case errors.Is(err, driver.ErrConflict) && mine:
				r.Errorf("swap %d got ErrConflict, and was applied", next.Nonce)
			case errors.Is(err, driver.ErrConflict) && got.Rev == l.Rev:
				r.Errorf("swap %d got ErrConflict at the current revision %q", next.Nonce, l.Rev)
			case err != nil && !errors.Is(err, driver.ErrConflict) && !errors.Is(err, context.Canceled):
				r.Errorf("a cancelled swap failed with %v, want context.Canceled", err)
			case !mine && got.Rev != l.Rev && !unsure[got.Nonce]:
				r.Errorf("after swap %d from nonce %d the register shows nonce %d, which nobody is writing",
					next.Nonce, l.Nonce, got.Nonce)
			}

			want := next
			if got.Rev == l.Rev {
				want = l
			}

			if diff := differ(want, got); diff != "" && !unsure[got.Nonce] {
				r.Errorf("a cancelled swap left a record with:%s", diff)
			}

			unsure[next.Nonce] = err != nil && !errors.Is(err, driver.ErrConflict)
			l = got
		}
	}},
	{"a_cancelled_call_returns", func(r *rig) {
		s := r.client()
		r.swap(s, taken("seat", 1))
		for i := range 60 {
			ctx, cancel := context.WithCancel(r.ctx)
			stop := time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
			r.mustReturn("cancelled reads", func() {
				for ctx.Err() == nil {
					if _, err := s.Get(ctx, "seat"); err != nil && !errors.Is(err, context.Canceled) {
						r.Errorf("a cancelled Get failed with %v, want context.Canceled", err)
					}
					if err := listError(s, ctx); err != nil && !errors.Is(err, context.Canceled) {
						r.Errorf("a cancelled List failed with %v, want context.Canceled", err)
					}
				}
			})

			stop.Stop()
			cancel()
		}

		r.get(s, "seat") // the store still works
	}},
}

// listError returns the error that a List ends with, if any.
func listError(s driver.Store, ctx context.Context) error {
	for _, err := range s.List(ctx, "") {
		if err != nil {
			return err
		}
	}
	return nil
}
