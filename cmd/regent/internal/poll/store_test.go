package poll

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// storeOf returns the poll store of a term that does not end.
func storeOf(store driver.Store, epoch uint64) *Store {
	return NewStore(store, "seat", epoch, func() bool { return true })
}

// loaded returns all polls, of which none may be damaged.
func loaded(t *testing.T, s *Store) []Poll {
	t.Helper()
	got, damaged, err := s.Load(t.Context())
	if err != nil || damaged != nil {
		t.Fatal(damaged, err)
	}
	return got
}

func definition(t *testing.T, name string) Poll {
	t.Helper()
	p, err := Decode(name, []byte(`{"kind":"tcp","target":"h:1","interval":"10s"}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStore(t *testing.T) {
	ctx := t.Context()

	t.Run("polls_are_kept_changed_and_removed", func(t *testing.T) {
		store := memstore.New()
		s := storeOf(store, 1)
		if got := loaded(t, s); len(got) != 0 {
			t.Fatal(got)
		}
		for i := range 1000 {
			if err := s.Put(ctx, definition(t, fmt.Sprintf("p%d", i))); err != nil {
				t.Fatal(err)
			}
		}
		changed := definition(t, "p7")
		changed.Target = "other:1"
		if err := errors.Join(s.Put(ctx, changed), s.Remove(ctx, "p8"), s.Remove(ctx, "none")); err != nil {
			t.Fatal(err)
		}
		got := loaded(t, storeOf(store, 2))
		if len(got) != 999 {
			t.Fatal(len(got))
		}
		for _, p := range got {
			changed := p.Target == "other:1"
			if p.Name == "p8" || p.Name == "p7" != changed || !p.Enabled || p.Interval != Duration(10*time.Second) {
				t.Errorf("got %+v", p)
			}
		}
	})

	t.Run("a_former_leader_can_write_nothing_however_late", func(t *testing.T) {
		store := memstore.New()
		old := storeOf(store, 1)
		loaded(t, old)
		if err := old.Put(ctx, definition(t, "x")); err != nil {
			t.Fatal(err)
		}
		loaded(t, storeOf(store, 2))
		changed := definition(t, "x")
		changed.Target = "evil:1"
		for _, err := range []error{old.Put(ctx, changed), old.Remove(ctx, "x")} {
			if !errors.Is(err, regent.ErrNotLeader) {
				t.Errorf("got %v", err)
			}
		}
		if got := loaded(t, storeOf(store, 3)); len(got) != 1 || got[0].Target != "h:1" {
			t.Errorf("%v", got)
		}
		if _, _, err := old.Load(ctx); !errors.Is(err, regent.ErrNotLeader) {
			t.Errorf("it reads them as its own: %v", err)
		}
	})

	t.Run("a_former_leader_cannot_create_a_register", func(t *testing.T) {
		for _, late := range []string{"before it is indexed", "after it was indexed"} {
			store := memstore.New()
			old := storeOf(store, 1)
			loaded(t, old)
			if late == "after it was indexed" {
				if err := old.addToIndex(ctx, old.register("x")); err != nil {
					t.Fatal(err)
				}
			}
			if got := loaded(t, storeOf(store, 2)); len(got) != 0 {
				t.Fatal(got)
			}
			if err := old.Put(ctx, definition(t, "x")); !errors.Is(err, regent.ErrNotLeader) {
				t.Errorf("%s: %v", late, err)
			}
			if got := loaded(t, storeOf(store, 3)); len(got) != 0 {
				t.Errorf("%s: %v", late, got)
			}
		}
	})

	t.Run("a_term_that_has_ended_writes_nothing", func(t *testing.T) {
		s := storeOf(memstore.New(), 1)
		loaded(t, s)
		s.valid = func() bool { return false }
		if err := s.Put(ctx, definition(t, "x")); !errors.Is(err, regent.ErrNotLeader) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("an_unknown_outcome_is_resolved_by_a_read", func(t *testing.T) {
		store := memstore.New()
		s := storeOf(&lossy{Store: store}, 1)
		loaded(t, s)
		if err := s.Put(ctx, definition(t, "x")); err != nil {
			t.Errorf("it was applied: %v", err)
		}
		if got := loaded(t, storeOf(store, 2)); len(got) != 1 {
			t.Errorf("%v", got)
		}
	})

	t.Run("a_poll_that_does_not_fit_is_refused_and_loses_nothing", func(t *testing.T) {
		store := memstore.New()
		s := storeOf(store, 1)
		loaded(t, s)
		var kept int
		var err error
		for i := 0; err == nil && i < 100_000; i++ {
			p := definition(t, fmt.Sprintf("p%d", i))
			if s.register(p.Name) != s.register("p0") {
				continue
			}
			p.Target = strings.Repeat("h", 2000) + ":1"
			if err = s.Put(ctx, p); err == nil {
				kept++
			}
		}
		if err == nil || !strings.Contains(err.Error(), "no room") {
			t.Fatalf("got %v", err)
		}
		if got := loaded(t, storeOf(store, 2)); len(got) != kept || kept < 20 {
			t.Errorf("%d of %d", len(got), kept)
		}
	})

	t.Run("a_damaged_register_is_reported_does_not_hide_the_others_and_is_not_overwritten", func(t *testing.T) {
		store := memstore.New()
		s := storeOf(store, 1)
		loaded(t, s)
		if err := s.Put(ctx, definition(t, "y")); err != nil {
			t.Fatal(err)
		}
		if err := s.Put(ctx, definition(t, "x")); err != nil {
			t.Fatal(err)
		}
		l, err := store.Get(ctx, s.register("x"))
		if err != nil {
			t.Fatal(err)
		}
		l.Data = []byte("damaged")
		if _, err := store.Swap(ctx, l); err != nil {
			t.Fatal(err)
		}
		s = storeOf(store, 2)
		got, damaged, err := s.Load(ctx)
		if err != nil || damaged == nil || len(got) != 1 {
			t.Fatal(got, damaged, err)
		}
		if err := s.Put(ctx, definition(t, "x")); err == nil {
			t.Error("it is overwritten")
		}
	})

	t.Run("an_election_with_too_long_a_name_is_refused", func(t *testing.T) {
		s := storeOf(memstore.New(), 1)
		s.election = strings.Repeat("x", 249)
		if _, _, err := s.Load(ctx); err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("got %v", err)
		}
	})
}

// lossy applies each swap, and then returns an unknown outcome.
type lossy struct{ *memstore.Store }

func (l *lossy) Swap(ctx context.Context, r driver.Record) (driver.Record, error) {
	if _, err := l.Store.Swap(ctx, r); err != nil {
		return driver.Record{}, err
	}
	return driver.Record{}, errors.New("connection reset")
}
