package storetest

import (
	"errors"
	"fmt"

	"github.com/regentd/regent/driver"
)

var closeChecks = []check{
	{"a_closed_store_says_so", func(r *rig) {
		s, other := r.client(), r.client()
		l := r.swap(s, taken("seat", 1))
		var notices <-chan driver.Record
		if w, ok := s.(driver.Notifier); ok {
			notices = w.Subscribe(r.ctx, driver.Prefix(""))
		}

		for range 3 {
			r.mustReturn("Close", func() {
				if err := s.Close(); err != nil {
					r.Errorf("Close: %v", err)
				}
			})
		}

		closed := func(call string, err error) {
			r.Helper()
			if !errors.Is(err, driver.ErrClosed) {
				r.Errorf("%s after Close: %v, want ErrClosed", call, err)
			}
		}

		r.mustReturn("calls after Close", func() {
			_, err := s.Get(r.ctx, "seat")
			closed("Get", err)
			_, err = s.Get(r.ctx, "none")
			closed("Get of nothing", err)
			_, err = s.Swap(r.ctx, renewed(l))
			closed("Swap", err)

			closed("List", listError(s, r.ctx))
			if b, ok := s.(driver.Batcher); ok {
				for _, o := range b.SwapAll(r.ctx, []driver.Record{renewed(l)}) {
					closed("SwapAll", o.Err)
				}
			}

			if w, ok := s.(driver.Notifier); ok {
				r.drain(notices)
				r.drain(w.Subscribe(r.ctx, driver.Prefix("")))
			}
		})

		if got := r.get(other, "seat"); got.Rev != l.Rev {
			r.Errorf("closing a client changed the register: %+v", got)
		}

		r.swap(other, renewed(l))
	}},
	{"closing_under_load_is_safe", func(r *rig) {
		for round := range 5 {
			s, other := r.client(), r.client()
			r.swap(other, taken(fmt.Sprintf("seat/%d", round), 1))
			const busy = 8
			r.together(busy+2, func(i int) {
				if i >= busy { // two, because Close may be called concurrently
					if err := s.Close(); err != nil {
						r.Errorf("Close: %v", err)
					}
					return
				}

				var err error
				for !errors.Is(err, driver.ErrClosed) && r.ctx.Err() == nil {
					switch i % 3 {
					case 0:
						_, err = s.Get(r.ctx, "none")
					case 1:
						_, err = s.Swap(r.ctx, taken(fmt.Sprintf("seat/%d", round), 2))
						if err == nil {
							r.Errorf("a swap at an empty revision was applied while the store was closed")
						}
					default:
						err = listError(s, r.ctx)
					}
				}
			})

			if got := r.get(other, fmt.Sprintf("seat/%d", round)); got.Nonce != 1 {
				r.Errorf("closing under load left nonce %d, want 1", got.Nonce)
			}
		}
	}},
}
