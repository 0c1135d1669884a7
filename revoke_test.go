package regent_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// revoker is a store in which something happens while the first revocation of a register is under way.
type revoker struct {
	*memstore.Client
	register      string
	before, after func()
	outcomes      []error // of all revocations
}

func (r *revoker) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	if l.Name != r.register || !l.Vacant() {
		return r.Client.Swap(ctx, l)
	}

	first := len(r.outcomes) == 0
	if first {
		r.before()
	}

	got, err := r.Client.Swap(ctx, l)
	if first {
		r.after()
	}

	r.outcomes = append(r.outcomes, err)
	return got, err
}

// TestWhatARevocationShows is about a heartbeat that a revocation has found replaced, or has replaced: what was watched
// until then is over, even if the store shows the same record once more (rule 2).
func TestWhatARevocationShows(t *testing.T) {
	cfg := regent.Cluster()
	z := driver.MemberRegister("z")

	// expiring starts a candidate for an election of z, which is silent from the start.
	expiring := func(t *testing.T, c *cluster) (*node, *revoker, driver.Record) {
		unseen(c)
		who := driver.Identity{ID: "z", Incarnation: "1.Z"}
		beat, err := c.store.Swap(c.ctx, driver.Record{Name: z, Holder: who, Epoch: 1, Nonce: 1,
			Duration: cfg.LeaseDuration})
		check(t, err)
		_, err = c.store.Swap(c.ctx, driver.Record{Name: "seat", Holder: who, Epoch: 1, Nonce: 2,
			Duration: cfg.LeaseDuration, Via: z})
		check(t, err)
		b := c.member("b", config(cfg))
		r := &revoker{Client: b.client, register: z, before: func() {}, after: func() {}}
		b.Store = r
		return b, r, beat
	}

	t.Run("a_heartbeat_that_had_moved_and_comes_back_is_watched_anew", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			b, r, beat := expiring(t, c)
			var renewed time.Time
			r.before = func() {
				next := beat
				next.Nonce++
				_, err := c.store.Swap(c.ctx, next)
				check(t, err)
				renewed = time.Now()
			}
			r.after = func() { c.store.Undo(1, only(z)) }
			b.lead()

			leader(t, time.Minute, b)
			if waited := time.Since(renewed); waited < cfg.LeaseDuration {
				t.Errorf("it leads %v after it met a heartbeat with a lease of %v", waited, cfg.LeaseDuration)
			}
			if len(r.outcomes) != 2 || !errors.Is(r.outcomes[0], driver.ErrConflict) || r.outcomes[1] != nil {
				t.Errorf("the revocations end with %v", r.outcomes)
			}

			b.quit()
		})
	})

	t.Run("an_applied_revocation_is_newer_than_a_read_that_was_sent_later", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			b, r, _ := expiring(t, c)
			r.before = func() {
				if err := b.HandOff(c.ctx, "seat", "z"); err == nil { // it reads the register of z
					t.Error("z is no candidate")
				}
			}
			b.lead()

			leader(t, time.Minute, b)
			if len(r.outcomes) != 1 || r.outcomes[0] != nil {
				t.Errorf("one revocation is enough, and they end with %v", r.outcomes)
			}

			b.quit()
		})
	})
}
