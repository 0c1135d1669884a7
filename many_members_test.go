package regent_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// TestManyMembers is about registers of members that are long gone.
func TestManyMembers(t *testing.T) {
	t.Run("members_that_have_left_are_not_remembered", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			best := c.member("best", ranked(regent.RankPriority, 9, false)).lead()
			leader(t, 10*time.Second, best)
			// it lists the members again and again, to preempt
			a := c.member("a", ranked(regent.RankPriority, 1, true)).lead()
			for i := range 30 {
				n := c.member(fmt.Sprint("guest", i)).lead()
				time.Sleep(10 * time.Second)
				n.quit()
			}

			time.Sleep(20 * time.Second)
			if n := regent.Known(a.Member); n > 10 {
				t.Errorf("it knows %d registers", n)
			}

			a.quit()
			best.quit()
		})
	})

	t.Run("a_listing_that_takes_long_keeps_nobody_from_leading", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", ranked(regent.RankPriority, 1, false),
				func(m *regent.Member) { m.Store = unlisted{m.Store} }).lead()
			if n, _ := leader(t, 2*regent.Cluster().HeartbeatInterval, a); n == nil {
				t.Error("it waits for the list")
			}

			a.quit()
		})
	})

	t.Run("a_long_list_that_goes_on_is_waited_for", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			for i := range 10 {
				_, err := c.store.Swap(c.ctx, driver.Record{Name: driver.MemberRegister(fmt.Sprint("old", i)),
					Epoch: 1, Nonce: 1})
				check(t, err)
			}

			a := c.member("a", ranked(regent.RankPriority, 1, false), func(m *regent.Member) {
				m.Config.LeaseDuration = 30 * time.Second // so that a request may take 7 s
				m.Config.HeartbeatInterval = 20 * time.Second
				m.Config.RenewInterval = 20 * time.Second
				m.Store = tardy{m.Store}
			}).lead()
			// Once it knows that nobody is better it waits no more.
			if n, _ := leader(t, 15*time.Second, a); n == nil {
				t.Error("the list was given up")
			}

			a.quit()
		})
	})
}

// unlisted is a store whose lists never come.
type unlisted struct{ driver.Store }

func (u unlisted) List(ctx context.Context, _ string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		<-ctx.Done()
		yield(driver.Record{}, ctx.Err())
	}
}

// tardy is a store whose lists come, one register a second.
type tardy struct{ driver.Store }

func (s tardy) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		for l, err := range s.Store.List(ctx, prefix) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				yield(driver.Record{}, ctx.Err())
				return
			}

			if !yield(l, err) {
				return
			}
		}
	}
}
