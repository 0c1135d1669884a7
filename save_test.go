package regent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

func TestSave(t *testing.T) {
	for name, profile := range map[string]regent.Config{"by_heartbeat": regent.Cluster(), "own_lease": regent.Lock()} {
		t.Run("a_checkpoint_reaches_the_next_term_"+name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a, b := c.member("a", config(profile)), c.member("b", config(profile))
				big := []byte(strings.Repeat("x", driver.MaxData))
				check(t, a.Lead(c.ctx, "seat", func(ctx context.Context, term regent.Term) error {
					if term.Saved() != nil {
						t.Errorf("a new seat has a checkpoint %q", term.Saved())
					}
					for i := range 50 {
						check(t, term.Save(ctx, fmt.Append(nil, i)))
						time.Sleep(time.Second) // over renewals
					}

					if err := term.Save(ctx, append(big, 'x')); err == nil ||
						!strings.Contains(err.Error(), "65537 bytes") {
						t.Errorf("got %v", err)
					}

					check(t, b.Pause(ctx, "seat")) // an edit by somebody else in between
					check(t, b.Resume(ctx, "seat"))
					check(t, term.Save(ctx, big))
					return nil
				}))
				check(t, b.Lead(c.ctx, "seat", func(_ context.Context, term regent.Term) error {
					if string(term.Saved()) != string(big) || term.Epoch != 2 {
						t.Errorf("term %d finds %d bytes", term.Epoch, len(term.Saved()))
					}
					return nil
				}))
			})
		})

		t.Run("a_former_leader_cannot_save_"+name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a, b := c.member("a", config(profile)), c.member("b", config(profile)).lead()
				b.quit()
				var old regent.Term
				a.stop = func() {}
				ctx, cancel := context.WithCancel(c.ctx)
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = a.Lead(ctx, "seat", func(ctx context.Context, term regent.Term) error {
						old = term
						<-ctx.Done()
						return nil
					})
				}()

				leader(t, 10*time.Second, a)
				b.lead()
				time.Sleep(2 * time.Second)
				a.client.SetFaults(cut)
				time.Sleep(70 * time.Second)
				a.client.SetFaults(faults{})
				if err := old.Save(c.ctx, []byte("late")); !errors.Is(err, regent.ErrNotLeader) || old.Valid() ||
					old.Remaining() != 0 {
					t.Errorf("got %v", err)
				}

				if l, _ := c.store.Get(c.ctx, "seat"); l.Data != nil || l.Holder.ID != "b" {
					t.Errorf("record is %+v", l)
				}

				cancel()
				<-done
				b.quit()
			})
		})
	}
}

func TestSaveIsRefused(t *testing.T) {
	t.Run("a_checkpoint_that_the_store_does_not_take_is_an_error_at_once", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			full := errors.New("disk is full")
			a := c.member("a")
			a.Store = &bent{a.client, func(l driver.Record) error {
				if l.Name == "seat" && len(l.Data) > 0 {
					return full
				}
				return nil
			}}
			check(t, a.Lead(c.ctx, "seat", func(ctx context.Context, term regent.Term) error {
				if err := term.Save(ctx, []byte("x")); !errors.Is(err, full) {
					t.Errorf("got %v", err)
				}
				return nil
			}))
		})
	})
}
