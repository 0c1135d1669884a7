package doctor

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// deaf is a store whose notifications do not arrive, except for some that the driver sends by itself.
type deaf struct{ driver.Store }

func (s deaf) Subscribe(ctx context.Context, _ *driver.Interest) <-chan driver.Record {
	c := make(chan driver.Record, 1)
	go func() {
		for range notifyTries {
			driver.Notify(c, driver.Record{})
			select {
			case <-ctx.Done():
				return
			case <-time.After(notifyTimeout * 5 / 4):
			}
		}
	}()
	return c
}

func TestNotifications(t *testing.T) {
	t.Run("of_a_store_that_sends_them_are_measured", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			r := &Report{Healthy: true}
			if push := r.checkNotifications(t.Context(), memstore.New(), regent.Cluster()); push < 0 ||
				r.Checks[0].Verdict != OK {
				t.Errorf("%v, %+v", push, r)
			}
		})
	})

	t.Run("that_do_not_arrive_are_a_warning", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			r := &Report{Healthy: true}
			push := r.checkNotifications(t.Context(), deaf{memstore.New()}, regent.Cluster())
			if push != NoPush || r.Checks[0].Verdict != Warning || !strings.Contains(r.Checks[0].Advice, "PgBouncer") {
				t.Errorf("%v, %+v", push, r)
			}
		})
	})
}

// narrow is a store in which some requests are denied.
type narrow struct {
	driver.Store
	list, remove error
	hide         bool
}

func (s *narrow) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	switch {
	case s.list != nil:
		return func(yield func(driver.Record, error) bool) { yield(driver.Record{}, s.list) }
	case s.hide:
		return func(func(driver.Record, error) bool) {}
	}
	return s.Store.List(ctx, prefix)
}

func (s *narrow) Remove(ctx context.Context, l driver.Record) error {
	if s.remove != nil {
		return s.remove
	}
	return s.Store.(driver.Remover).Remove(ctx, l)
}

func TestCheckPermissions(t *testing.T) {
	denied := errors.New("denied")
	for name, c := range map[string]struct {
		store narrow
		want  Verdict
		text  string
	}{
		"all_is_allowed":            {narrow{}, OK, "read, write, list and remove"},
		"a_list_that_is_denied":     {narrow{list: denied}, Wrong, "cannot be listed: denied"},
		"a_list_that_shows_nothing": {narrow{hide: true}, Wrong, "does not show a register"},
		"a_removal_that_is_denied":  {narrow{remove: denied}, Warning, "cannot be removed: denied"},
	} {
		t.Run(name, func(t *testing.T) {
			c.store.Store = memstore.New()
			if _, err := c.store.Swap(t.Context(), driver.Record{Name: scratch, Nonce: 1}); err != nil {
				t.Fatal(err)
			}
			r := &Report{Healthy: true}
			r.CheckPermissions(t.Context(), &c.store)
			if len(r.Checks) != 1 || r.Checks[0].Verdict != c.want || !strings.Contains(r.Checks[0].Text, c.text) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestAddCost compares the cost with a row of the table in docs/STORES.md, which another test checks.
func TestAddCost(t *testing.T) {
	r := &Report{Healthy: true}
	r.AddCost(50, regent.Fleet())
	if want := "50 members in which nothing changes send 10.0 PUT, 3.8 GET and 0.13 LIST a second: about $135 in 30 " +
		"days, at $0.005 for 1,000 PUT or LIST and $0.0004 for 1,000 GET (assumed: S3 Standard in us-east-1)"; want !=
		r.Checks[0].Text || r.Cost.Members != 50 || r.Cost.DollarsPerMonth < 134 || r.Cost.DollarsPerMonth > 136 {
		t.Errorf("%+v, %+v", r.Checks, r.Cost)
	}
}
