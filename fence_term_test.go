package regent_test

import (
	"crypto/rand"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/storetest"
)

// of is a token of a term.
func of(term string, epoch uint64) regent.Token { return regent.Token{Epoch: epoch, Term: term} }

// refused fails unless the error says that a token was refused because its epoch belongs to another
// term.
func refused(t *testing.T, err error, token regent.Token, owner string) {
	t.Helper()
	want := regent.StaleError{Epoch: token.Epoch, Term: token.Term, Newest: token.Epoch, NewestTerm: owner}
	var s *regent.StaleError
	if !errors.As(err, &s) || *s != want {
		t.Errorf("got %v, want %v refused for term %s", err, token, owner)
	}
}

func TestFenceTerms(t *testing.T) {
	t.Run("another_term_with_the_highest_epoch_is_refused_and_counted", func(t *testing.T) {
		for _, term := range []string{"a", rand.Text(), strings.Repeat("x", 128)} {
			var f regent.Fence
			check(t, f.Admit(of(term, 7)))
			check(t, f.Admit(of(strings.Clone(term), 7)))
			refused(t, f.Admit(of("b", 7)), of("b", 7), term)
			refused(t, f.Admit(epoch(7)), epoch(7), term)
			if f.Refused() != 2 {
				t.Errorf("%d refusals counted", f.Refused())
			}

			check(t, f.Admit(of(term, 7)))
		}
	})

	t.Run("two_terms_that_differ_in_one_character_are_distinguished", func(t *testing.T) {
		term := rand.Text()
		for i := range term {
			other := []byte(term)
			other[i] ^= 1
			var f regent.Fence
			check(t, f.Admit(of(term, 7)))
			refused(t, f.Admit(of(string(other), 7)), of(string(other), 7), term)
		}
	})

	t.Run("a_name_of_zeros_is_no_term", func(t *testing.T) {
		var f regent.Fence
		check(t, f.Admit(of("short", 7)))
		if f.Admit(of(strings.Repeat("\x00", 26), 7)) == nil {
			t.Error("admitted")
		}
	})

	t.Run("a_newer_epoch_of_any_term_is_taken", func(t *testing.T) {
		var f regent.Fence
		check(t, f.Admit(of("a", 7)))
		check(t, f.Admit(of("b", 8)))
		stale(t, f.Admit(of("a", 7)), 7, 8)
		check(t, f.Admit(of("b", 9)))
		refused(t, f.Admit(of("a", 9)), of("a", 9), "b")
	})

	t.Run("the_first_term_named_for_an_open_epoch_binds_it", func(t *testing.T) {
		for name, open := range map[string]func(*regent.Fence) error{
			"by_work_without_a_term": func(f *regent.Fence) error { return f.Admit(epoch(7)) },
			"by_a_vacant_record":     func(f *regent.Fence) error { return f.Learn(epoch(7)) },
		} {
			t.Run(name, func(t *testing.T) {
				var f regent.Fence
				check(t, open(&f))
				check(t, f.Admit(epoch(7)))
				check(t, f.Admit(of("a", 7)))
				refused(t, f.Admit(of("b", 7)), of("b", 7), "a")
				refused(t, f.Admit(epoch(7)), epoch(7), "a")
			})
		}
	})

	t.Run("a_learned_term_binds_and_another_one_is_not_learned", func(t *testing.T) {
		var f regent.Fence
		check(t, f.Learn(epoch(0)))
		check(t, f.Learn(of("a", 7)))
		check(t, f.Learn(of("a", 7)))
		check(t, f.Learn(epoch(7)))
		check(t, f.Learn(of("z", 6)))
		refused(t, f.Learn(of("b", 7)), of("b", 7), "a")
		refused(t, f.Admit(of("b", 7)), of("b", 7), "a")
		if h, err := f.Highest(); h != of("a", 7) || err != nil || f.Refused() != 1 {
			t.Errorf("highest is %v, %v; %d refused", h, err, f.Refused())
		}
	})

	t.Run("E11_the_grace_is_for_one_term_of_the_last_epoch", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			f := regent.Fence{Grace: 5 * time.Second}
			check(t, f.Admit(of("a", 6)))
			check(t, f.Admit(of("b", 7)))
			check(t, f.AdmitLate(of("a", 6), time.Now(), true))
			stale(t, f.AdmitLate(of("x", 6), time.Now(), true), 6, 7)
			stale(t, f.AdmitLate(epoch(6), time.Now(), true), 6, 7)
			refused(t, f.AdmitLate(of("x", 7), time.Now(), true), of("x", 7), "b")
		})
	})

	t.Run("E11_the_first_late_term_of_an_epoch_that_was_passed_over_has_the_grace", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			f := regent.Fence{Grace: 5 * time.Second}
			check(t, f.Admit(of("a", 4)))
			check(t, f.Admit(of("b", 7)))
			check(t, f.AdmitLate(of("c", 6), time.Now(), true))
			check(t, f.AdmitLate(of("c", 6), time.Now(), true))
			stale(t, f.AdmitLate(of("x", 6), time.Now(), true), 6, 7)
		})
	})

	t.Run("what_no_term_can_have_is_refused", func(t *testing.T) {
		for _, token := range []regent.Token{
			epoch(0), epoch(1 << 62), epoch(math.MaxUint64),
			of("a b", 1), of("a\nb", 1), of("ä", 1), of(strings.Repeat("x", 129), 1),
		} {
			var f regent.Fence
			if err := f.Admit(token); !errors.Is(err, regent.ErrInvalidToken) {
				t.Errorf("admit %v: %v", token, err)
			}
			if err := f.Learn(token); token.Epoch != 0 && !errors.Is(err, regent.ErrInvalidToken) {
				t.Errorf("learn %v: %v", token, err)
			}
			if h, err := f.Highest(); h != epoch(0) || err != nil {
				t.Errorf("after %v the highest is %v, %v", token, h, err)
			}
		}
		check(t, new(regent.Fence).Admit(epoch(1<<62-1)))
	})

	t.Run("a_confirmation_sees_the_term", func(t *testing.T) {
		no := errors.New("the store shows another holder")
		f := regent.Fence{Confirm: func(t regent.Token) error {
			if t.Term != "a" {
				return no
			}
			return nil
		}}
		if err := f.Admit(of("b", 9)); !errors.Is(err, no) {
			t.Errorf("got %v", err)
		}

		check(t, f.Admit(of("a", 9)))
	})

	t.Run("a_refusal_says_what_happened", func(t *testing.T) {
		for want, e := range map[string]regent.StaleError{
			"epoch 5 is stale: epoch 6 has been seen": {Epoch: 5, Newest: 6, NewestTerm: "b"},
			"epoch 6 of term a is refused: it belongs to term b " +
				"(two terms have one epoch: has the store lost writes?)": {
				Epoch: 6, Term: "a", Newest: 6, NewestTerm: "b"},
			"epoch 6 is refused: it belongs to term b, and the work names no term (is its sender an older version?)": {
				Epoch: 6, Newest: 6, NewestTerm: "b"},
		} {
			if e.Error() != want {
				t.Errorf("got  %s\nwant %s", e.Error(), want)
			}
		}
	})
}

func TestEventsNameTheTerm(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.member("a").lead()
		leader(t, time.Second, a)
		b := c.member("b").lead()
		time.Sleep(time.Second)
		term, _ := a.Leads("seat")
		won, seen := a.kinds(regent.EventBecameLeader), b.kinds(regent.EventLeaderChanged)
		if len(won) != 1 || won[0].Metadata["term"] != term.Incarnation || term.Incarnation == "" {
			t.Errorf("the leader tells %+v of its term %v", won, term.Token())
		}
		if len(seen) != 1 || seen[0].Metadata["term"] != term.Incarnation {
			t.Errorf("another tells %+v of the term %v", seen, term.Token())
		}

		a.quit()
		b.quit()
	})
}

// TestFenceOfTwoTerms has a store forget one write, so that there are two terms with one epoch.
func TestFenceOfTwoTerms(t *testing.T) {
	for name, path := range map[string]string{"in_memory": "", "in_a_file": filepath.Join(t.TempDir(), "fence")} {
		t.Run("one_of_two_terms_with_one_epoch_is_admitted/"+name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				store := memstore.New()
				first, second := storetest.TwoTerms(t, store, "seat", func() func() {
					snapshot := store.Snapshot()
					return func() { store.Rollback(snapshot) }
				})

				if !first.Valid() || !second.Valid() {
					t.Fatal("the store has lost a write, and one of the terms has ended by itself")
				}

				f := &regent.Fence{Path: path}
				check(t, f.Admit(first.Token()))
				refused(t, f.Admit(second.Token()), second.Token(), first.Incarnation)
				check(t, f.Admit(first.Token()))

				f = &regent.Fence{Path: path} // it is started again
				if path != "" {
					refused(t, f.Admit(second.Token()), second.Token(), first.Incarnation)
				}

				check(t, f.Admit(first.Token()))
			})
		})
	}
}
