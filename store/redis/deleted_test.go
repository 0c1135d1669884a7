package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func missing(s *Store, name string) error {
	_, err := s.Get(s.ctx, name)
	return err
}

// TestRegisterDeleted deletes a register, but not the key of the seat beside it.
func TestRegisterDeleted(t *testing.T) {
	srv := empty(t)
	s := open(t, srv.url())
	const incarnation = "7.ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	kept := func(name, incarnation string) driver.Record {
		l := held(name, "a", 1)
		l.Holder.Incarnation = incarnation
		l.Via = driver.MemberRegister("a")
		return l
	}

	t.Run("the_seat_counts_as_never_written_and_can_be_claimed", func(t *testing.T) {
		for _, name := range []string{"seat", driver.MemberRegister("b")} {
			storetest.Swap(t, s, kept(name, incarnation))
			cli(t, srv, "DEL", "{"+name+"}:regent")
			if err := missing(s, name); !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("Get = %v", err)
			}

			storetest.Swap(t, s, kept(name, "8"+incarnation[1:]))
			if got := cli(t, srv, "GET", name); got != "a/8"+incarnation[1:] {
				t.Errorf("the key holds %q", got)
			}
		}
	})

	t.Run("a_lock_of_somebody_else_is_respected", func(t *testing.T) {
		for key, value := range map[string]string{"theirs": "worker-1", "theirs/2": "a/some-other-thing"} {
			cli(t, srv, "SET", key, value)
			if l := get(t, s, key); l.Holder.Incarnation != foreignIncarnation {
				t.Errorf("%s is held by %v", key, l.Holder)
			}
			refused(t, s, kept(key, incarnation))
		}

		cli(t, srv, "SET", "brief", "a/"+incarnation, "PX", "60000") // it expires by itself
		if l := get(t, s, "brief"); l.Holder.Incarnation != foreignIncarnation {
			t.Errorf("held by %v", l.Holder)
		}
	})
}

func TestSeatDeletedBeforeItsTime(t *testing.T) {
	s := open(t, empty(t).url())
	c := raw(t, shared)
	l := held("seat", "a", 1)
	l.Duration = time.Minute
	l = storetest.Swap(t, s, l)
	ask(t, c, "DEL", "seat")

	if got := get(t, s, "seat"); got.Holder != l.Holder || got.Rev != l.Rev {
		t.Errorf("its holder, who does not know, is replaced by %+v", got)
	}

	claim := held("seat", "b", 7)
	refused(t, s, claim)
	claim.Rev = l.Rev + "!"
	refused(t, s, claim)
	l.Nonce++
	l = storetest.Swap(t, s, l)

	if got := ask(t, c, "GET", "seat"); got != l.Holder.String() {
		t.Errorf("its holder's renewal leaves the seat at %q", got)
	}

	l.Duration = 50 * time.Millisecond
	l.Nonce++
	l = storetest.Swap(t, s, l)
	ask(t, c, "DEL", "seat")
	await(t, "the seat is vacant after its time", 5*time.Second, func() bool { return get(t, s, "seat").Vacant() })
	l.Nonce++

	refused(t, s, l)
	claim.Rev = get(t, s, "seat").Rev
	storetest.Swap(t, s, claim)
}
