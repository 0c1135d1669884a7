package regent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// overwrite writes a vacant record with an epoch that nobody has counted to.
func overwrite(t *testing.T, s *memstore.Store, epoch uint64) {
	t.Helper()
	l, err := s.Get(t.Context(), "seat")
	check(t, err)
	next := driver.Record{Name: "seat", Rev: l.Rev, Epoch: epoch, Nonce: 1, Duration: time.Second, Since: time.Now()}
	_, err = s.Swap(t.Context(), next)
	check(t, err)
}

func TestEpochsBeyondCounting(t *testing.T) {
	for _, epoch := range []uint64{1<<62 - 1, 1 << 62, 1<<64 - 1} {
		t.Run(fmt.Sprintf("%d_is_reported_once_and_forgotten_with_its_register", epoch), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				empty := c.store.Snapshot()
				a := c.member("a").lead()
				leader(t, time.Second, a)
				overwrite(t, c.store, epoch)
				time.Sleep(5 * time.Minute)
				if term, leads := a.Leads("seat"); leads {
					t.Errorf("leads in epoch %d", term.Epoch)
				}

				got := a.kinds(regent.EventRegisterUnreadable)
				if len(got) != 1 || got[0].Election != "seat" ||
					!strings.Contains(got[0].Metadata["error"], fmt.Sprint(epoch)) {
					t.Errorf("reported as %+v", got)
				}

				c.store.Rollback(empty)
				if n, _ := leader(t, 5*time.Minute, a); n == nil {
					t.Fatal("nobody leads after the register was removed")
				}
				if term, _ := a.Leads("seat"); term.Epoch != 2 {
					t.Errorf("leads in epoch %d", term.Epoch)
				}

				a.quit()
			})
		})
	}

	t.Run("the_last_epoch_that_is_claimed_is_the_last_that_a_fence_accepts", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			overwrite(t, c.store, 1<<62-2)
			var term regent.Term
			for range 600 {
				if time.Sleep(time.Second); a.leads() {
					term, _ = a.Leads("seat")
				}
			}

			if term.Epoch != 1<<62-1 {
				t.Fatalf("leads in epoch %d", term.Epoch)
			}

			check(t, new(regent.Fence).Admit(term.Token()))
			a.quit()
		})
	})
}

func TestReportedEpochs(t *testing.T) {
	t.Run("an_absurd_epoch_is_not_believed", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			a.Observe("seat", 1<<63)
			a.lead()
			leader(t, time.Second, a)
			if term, _ := a.Leads("seat"); term.Epoch != 1 {
				t.Errorf("epoch %d", term.Epoch)
			}

			a.quit()
		})
	})
}
