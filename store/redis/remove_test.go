package redis

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func TestRemove(t *testing.T) {
	srv := startServer(t, "--save", "")
	s := open(t, srv.url())
	vacant := func(t *testing.T, name string) driver.Record {
		l := storetest.Swap(t, s, held(name, "a", 1))
		return storetest.Swap(t, s, driver.Record{Name: name, Rev: l.Rev, Epoch: 1, Nonce: 2})
	}

	t.Run("nothing_of_a_register_is_left", func(t *testing.T) {
		l := vacant(t, "gone")
		if err := s.Remove(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		if got := cli(t, srv, "DBSIZE"); got != "0" {
			t.Errorf("%s keys are left: %s", got, cli(t, srv, "KEYS", "*"))
		}
	})

	t.Run("one_that_has_expired_is_removed", func(t *testing.T) {
		l := held("expired", "a", 1)
		l.Via = ""
		l.Duration = 50 * time.Millisecond
		l = storetest.Swap(t, s, l)
		if err := s.Remove(t.Context(), l); !errors.Is(err, driver.ErrConflict) {
			t.Errorf("Remove of a held register: %v", err)
		}

		await(t, "the register expires", 20*time.Second, func() bool {
			got, err := s.Get(t.Context(), "expired")
			l = got
			return err == nil && got.Vacant()
		})

		if err := s.Remove(t.Context(), l); err != nil {
			t.Errorf("Remove of an expired register: %v", err)
		}

		if _, err := s.Get(t.Context(), "expired"); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("Get after the removal: %v", err)
		}
	})

	t.Run("one_whose_key_somebody_else_has_taken_is_kept", func(t *testing.T) {
		l := vacant(t, "foreign")
		cli(t, srv, "SET", "foreign", "somebody", "PX", "60000")
		if err := s.Remove(t.Context(), l); !errors.Is(err, driver.ErrConflict) {
			t.Errorf("Remove: %v, want ErrConflict", err)
		}
		if got := cli(t, srv, "EXISTS", "{foreign}:regent"); got != "1" {
			t.Error("the register is gone")
		}
	})

	t.Run("a_user_who_may_not_change_the_index_may_remove", func(t *testing.T) {
		args := slices.Clone(leastPrivilege)
		cli(t, srv, append(args, "-zrem")...)
		l := vacant(t, "seat/1")
		if err := open(t, "redis://regent:s3cret@"+srv.addr()).Remove(t.Context(), l); err != nil {
			t.Fatal(err)
		}

		if _, err := s.Get(t.Context(), "seat/1"); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("Get after the removal: %v", err)
		}

		if slices.Contains(storetest.Names(t, s, ""), "seat/1") {
			t.Error("List yields a register that was removed")
		}
	})
}
