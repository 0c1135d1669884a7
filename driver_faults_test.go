package regent_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestDriverFaults(t *testing.T) {
	t.Run("C17_a_panic_in_the_renewal_of_a_lock_restarts_the_member", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			n := 0
			a := c.member("a", config(regent.Lock()))
			a.Store = &bent{a.client, func(driver.Record) error {
				if n++; n == 2 {
					panic("driver is broken")
				}
				return nil
			}}
			a.lead()
			time.Sleep(5 * time.Minute)
			if !a.leads() || len(a.kinds(regent.EventCandidateRestarted)) != 1 {
				t.Errorf("%q", c.log)
			}

			a.quit()
		})
	})

	t.Run("a_store_that_tells_too_little_of_a_batch_is_asked_again", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			a.Store = short{a.client}
			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = a.Run(ctx, regent.Duty{Election: "x"}, regent.Duty{Election: "y"}, regent.Duty{Election: "z"})
			}()

			time.Sleep(time.Minute)
			for _, e := range []string{"x", "y", "z"} {
				if _, ok := a.Leads(e); !ok {
					t.Errorf("%s is not led", e)
				}
			}

			if len(a.kinds(regent.EventCandidateRestarted)) != 0 {
				t.Error("the loop died")
			}

			cancel()
			<-done
		})
	})
}

// bent is a store whose swaps can be bent.
type bent struct {
	driver.Store
	swap func(driver.Record) error // an error instead of the swap, or nil
}

func (b *bent) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	if err := b.swap(l); err != nil {
		return driver.Record{}, err
	}
	return b.Store.Swap(ctx, l)
}

func (b *bent) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return b.Store.List(ctx, prefix)
}

// short is a store that tells too little of a batch.
type short struct{ *memstore.Client }

func (s short) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	return s.Client.SwapAll(ctx, ls)[:1]
}
