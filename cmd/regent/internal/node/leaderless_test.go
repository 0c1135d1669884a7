package node_test

import (
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// TestDeadLeaderOfAPausedElection kills the leader while nobody may take over.
func TestDeadLeaderOfAPausedElection(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		store := memstore.New()
		open := clients(store)
		a, stopA := start(t, "a", open("a"))
		time.Sleep(5 * time.Second)
		b, stopB := start(t, "b", open("b"))
		time.Sleep(5 * time.Second)
		if err := a.Member.Pause(t.Context(), "seat"); err != nil {
			t.Fatal(err)
		}

		time.Sleep(5 * time.Second)
		before := b.Counts().Leaderless
		if h := b.Health(); h.Leader != "a" || h.Checks["leader"] != "" {
			t.Errorf("while a leads: %+v", h)
		}

		l, err := store.Get(t.Context(), driver.MemberRegister("a"))
		if err == nil {
			err = regent.Reap(t.Context(), store, l.Name, l.Holder) // as its companion process does
		}
		if err != nil {
			t.Fatal(err)
		}

		time.Sleep(20 * time.Second)
		h, v, _ := b.Observe()
		if h.Leader != "" || h.LeaderAddr != "" || h.Checks["leader"] != "a leads no more: nobody has taken over" {
			t.Errorf("after its death: %+v", h)
		}
		if y := v.Before(); y.Leader != "a" || y.Reason != regent.ReasonDied {
			t.Errorf("the reason is %+v", y)
		}
		if d := b.Counts().Leaderless - before; d < 15*time.Second || d > 20*time.Second {
			t.Errorf("leaderless for %v of 20 s", d)
		}

		stopA()
		stopB()
	})
}
