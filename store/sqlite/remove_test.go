package sqlite

import (
	"errors"
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func TestRemove(t *testing.T) {
	t.Run("nobody_else_can_delete_a_register_afterwards", func(t *testing.T) {
		s := fresh(t)
		other := open(t, s.path) // as another process, with statements that were prepared before
		for range 3 {
			kept := storetest.Swap(t, other, held("kept", "a", 1))
			l := storetest.Swap(t, s, held("gone", "a", 1))
			l = storetest.Swap(t, s, driver.Record{Name: "gone", Rev: l.Rev, Epoch: 1, Nonce: 2})
			if err := s.Remove(t.Context(), l); err != nil {
				t.Fatal(err)
			}

			if _, err := raw(t, s.path).Exec("DELETE FROM regent_lease"); err == nil ||
				!strings.Contains(err.Error(), "never deleted") {
				t.Fatalf("a plain DELETE: %v", err)
			}

			kept.Holder = driver.Identity{}
			kept = storetest.Swap(t, other, kept)
			if err := other.Remove(t.Context(), kept); err != nil {
				t.Fatal(err)
			}
		}
	})

	t.Run("what_is_known_of_a_register_goes_with_it", func(t *testing.T) {
		s := fresh(t)
		l := storetest.Swap(t, s, held("gone", "a", 1))
		l = storetest.Swap(t, s, driver.Record{Name: "gone", Rev: l.Rev, Epoch: 1, Nonce: 2})
		if err := s.Remove(t.Context(), l); err != nil {
			t.Fatal(err)
		}

		if _, ok := s.known["gone"]; ok {
			t.Error("the register is still known")
		}

		if _, err := s.Swap(t.Context(), l); !errors.Is(err, driver.ErrConflict) {
			t.Errorf("Swap of what was removed: %v", err)
		}
	})
}
