package poll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func shelfOf(store driver.Store, epoch uint64) *shelf {
	return &shelf{store: store, election: "seat", epoch: epoch, valid: func() bool { return true }}
}

func loaded(t *testing.T, s *shelf) []Poll {
	t.Helper()
	got, spoilt, err := s.load(t.Context())
	if err != nil || spoilt != nil {
		t.Fatal(spoilt, err)
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

func TestShelf(t *testing.T) {
	ctx := t.Context()

	t.Run("polls_are_kept_changed_and_removed", func(t *testing.T) {
		store := memstore.New()
		s := shelfOf(store, 1)
		if got := loaded(t, s); len(got) != 0 {
			t.Fatal(got)
		}
		for i := range 1000 {
			if err := s.put(ctx, definition(t, fmt.Sprintf("p%d", i))); err != nil {
				t.Fatal(err)
			}
		}
		changed := definition(t, "p7")
		changed.Target = "other:1"
		if err := errors.Join(s.put(ctx, changed), s.remove(ctx, "p8"), s.remove(ctx, "none")); err != nil {
			t.Fatal(err)
		}
		got := loaded(t, shelfOf(store, 2))
		if len(got) != 999 {
			t.Fatal(len(got))
		}
		for _, p := range got {
			if p.Name == "p8" || p.Name == "p7" != (p.Target == "other:1") || !p.Enabled || p.Interval != Duration(10*time.Second) {
				t.Errorf("got %+v", p)
			}
		}
	})

	t.Run("a_former_leader_can_write_nothing_however_late", func(t *testing.T) {
		store := memstore.New()
		old := shelfOf(store, 1)
		loaded(t, old)
		if err := old.put(ctx, definition(t, "x")); err != nil {
			t.Fatal(err)
		}
		loaded(t, shelfOf(store, 2))
		changed := definition(t, "x")
		changed.Target = "evil:1"
		for _, err := range []error{old.put(ctx, changed), old.remove(ctx, "x")} {
			if !errors.Is(err, regent.ErrNotLeader) {
				t.Errorf("got %v", err)
			}
		}
		if got := loaded(t, shelfOf(store, 3)); len(got) != 1 || got[0].Target != "h:1" {
			t.Errorf("%v", got)
		}
		if _, _, err := old.load(ctx); !errors.Is(err, regent.ErrNotLeader) {
			t.Errorf("it reads them as its own: %v", err)
		}
	})

	t.Run("nor_can_it_make_a_register_that_was_not_there", func(t *testing.T) {
		for _, late := range []string{"before it is noted", "after it was noted"} {
			store := memstore.New()
			old := shelfOf(store, 1)
			loaded(t, old)
			if late == "after it was noted" {
				if err := old.note(ctx, old.register("x")); err != nil {
					t.Fatal(err)
				}
			}
			if got := loaded(t, shelfOf(store, 2)); len(got) != 0 {
				t.Fatal(got)
			}
			if err := old.put(ctx, definition(t, "x")); !errors.Is(err, regent.ErrNotLeader) {
				t.Errorf("%s: %v", late, err)
			}
			if got := loaded(t, shelfOf(store, 3)); len(got) != 0 {
				t.Errorf("%s: %v", late, got)
			}
		}
	})

	t.Run("a_term_that_has_ended_writes_nothing", func(t *testing.T) {
		s := shelfOf(memstore.New(), 1)
		loaded(t, s)
		s.valid = func() bool { return false }
		if err := s.put(ctx, definition(t, "x")); !errors.Is(err, regent.ErrNotLeader) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("an_unknown_outcome_is_found_out", func(t *testing.T) {
		store := memstore.New()
		s := shelfOf(&lossy{Store: store}, 1)
		loaded(t, s)
		if err := s.put(ctx, definition(t, "x")); err != nil {
			t.Errorf("it was applied: %v", err)
		}
		if got := loaded(t, shelfOf(store, 2)); len(got) != 1 {
			t.Errorf("%v", got)
		}
	})

	t.Run("what_does_not_fit_is_refused_and_loses_nothing", func(t *testing.T) {
		store := memstore.New()
		s := shelfOf(store, 1)
		loaded(t, s)
		var kept int
		var err error
		for i := 0; err == nil && i < 100_000; i++ {
			p := definition(t, fmt.Sprintf("p%d", i))
			if s.register(p.Name) != s.register("p0") {
				continue
			}
			p.Target = strings.Repeat("h", 2000) + ":1"
			if err = s.put(ctx, p); err == nil {
				kept++
			}
		}
		if err == nil || !strings.Contains(err.Error(), "no room") {
			t.Fatalf("got %v", err)
		}
		if got := loaded(t, shelfOf(store, 2)); len(got) != kept || kept < 20 {
			t.Errorf("%d of %d", len(got), kept)
		}
	})

	t.Run("what_cannot_be_read_is_told_keeps_nothing_else_away_and_is_not_overwritten", func(t *testing.T) {
		store := memstore.New()
		s := shelfOf(store, 1)
		loaded(t, s)
		if err := s.put(ctx, definition(t, "y")); err != nil {
			t.Fatal(err)
		}
		if err := s.put(ctx, definition(t, "x")); err != nil {
			t.Fatal(err)
		}
		l, err := store.Get(ctx, s.register("x"))
		if err != nil {
			t.Fatal(err)
		}
		l.Data = []byte("spoilt")
		if _, err := store.Swap(ctx, l); err != nil {
			t.Fatal(err)
		}
		s = shelfOf(store, 2)
		got, spoilt, err := s.load(ctx)
		if err != nil || spoilt == nil || len(got) != 1 {
			t.Fatal(got, spoilt, err)
		}
		if err := s.put(ctx, definition(t, "x")); err == nil {
			t.Error("it is overwritten")
		}
	})

	t.Run("an_election_with_too_long_a_name_is_told", func(t *testing.T) {
		s := shelfOf(memstore.New(), 1)
		s.election = strings.Repeat("x", 249)
		if _, _, err := s.load(ctx); err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("got %v", err)
		}
	})
}

// lossy applies each swap and then says that it does not know.
type lossy struct{ *memstore.Store }

func (l *lossy) Swap(ctx context.Context, r driver.Record) (driver.Record, error) {
	if _, err := l.Store.Swap(ctx, r); err != nil {
		return driver.Record{}, err
	}
	return driver.Record{}, errors.New("connection reset")
}

func TestCheckpoint(t *testing.T) {
	c := &conduct{entries: map[string]*entry{}, open: map[*slot]struct{}{}, through: time.UnixMilli(1_000_000)}
	e := entryOf(t, Poll{Interval: Duration(time.Second)})
	c.entries["p"] = e
	e.state = Down
	for i := range 10_000 {
		c.open[&slot{entry: e, due: int64(900_000 + i), worker: "w"}] = struct{}{}
	}
	c.open[&slot{entry: e, due: 1, manual: true}] = struct{}{}
	cp, _ := c.checkpoint()
	b, err := json.Marshal(cp)
	if err != nil || len(b) > driver.MaxData {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if len(cp.Open) < 1000 || cp.Open[0] != "p/900000" || len(cp.Down) != 1 {
		t.Errorf("%d open, first %s, down %v", len(cp.Open), cp.Open[0], cp.Down)
	}
	// What it does not list is due after what it tells.
	last, _ := parseID(cp.Open[len(cp.Open)-1])
	if cp.Through != last.due {
		t.Errorf("through %d, last open %d", cp.Through, last.due)
	}
	back, err := readCheckpoint(b)
	if err != nil || back.begin().UnixMilli() != 900_000 {
		t.Errorf("%v %v", back.begin(), err)
	}
	// Those that nobody takes do not hold up the rest.
	c.open = map[*slot]struct{}{}
	for i := range 10_000 {
		c.open[&slot{entry: e, due: int64(100 + i)}] = struct{}{}
	}
	c.open[&slot{entry: e, due: 999_999, worker: "w"}] = struct{}{}
	if cp, _ := c.checkpoint(); cp.Through != 1_000_000 || cp.Open[0] != "p/999999" {
		t.Errorf("through %d, first open %s", cp.Through, cp.Open[0])
	}
	if _, err := readCheckpoint([]byte("spoilt")); err == nil {
		t.Error("anything is a checkpoint")
	}
}
