package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestRefresh(t *testing.T) {
	first := func(c *memstore.Client, ctx context.Context, l driver.Record) func() error {
		return func() error { return c.Refresh(ctx, []driver.Record{l})[0].Err }
	}
	bubble(t, "a_refresh_is_one_request_however_many_it_names", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{Request: always(time.Second), Answer: always(time.Second)})
		began := time.Now()
		outs := c.Refresh(t.Context(), []driver.Record{l, {Name: "none"}, l})
		if outs[0].Err != nil || !errors.Is(outs[1].Err, driver.ErrNotFound) || outs[2].Err != nil {
			t.Errorf("outcomes are %+v", outs)
		}

		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %v, want 2s", took)
		}

		got, want := c.Counts(), memstore.Counts{Refreshes: 1}
		if got != want || got.Total() != 1 || got.Writes() != 0 {
			t.Errorf("the client counts %+v, want %+v", got, want)
		}
	})

	bubble(t, "a_refresh_shows_the_store_as_it_arrives", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{Request: always(time.Second)})
		time.AfterFunc(time.Second/2, func() {
			later := seat(2)
			later.Rev = l.Rev
			_, _ = s.Swap(t.Context(), later)
		})

		if outs := c.Refresh(t.Context(), []driver.Record{l}); outs[0].Err != nil || outs[0].Record.Nonce != 2 {
			t.Errorf("outcomes are %+v", outs)
		}
	})

	bubble(t, "a_refresh_meets_outages_and_partitions", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{Outage: true})
		takes(t, 0, memstore.ErrOutage, first(c, t.Context(), l))
		c.SetFaults(memstore.Faults{CutRequests: true})
		takes(t, time.Second, context.DeadlineExceeded, first(c, within(t, time.Second), l))
		c.SetFaults(memstore.Faults{CutAnswers: true, Timeout: always(time.Second)})
		takes(t, time.Second, memstore.ErrNoAnswer, first(c, t.Context(), l))
		time.AfterFunc(time.Second, func() { c.Close() })
		c.SetFaults(memstore.Faults{LoseRequest: 1})
		takes(t, time.Second, driver.ErrClosed, first(c, t.Context(), l))
	})

	bubble(t, "each_read_of_a_refresh_may_be_lost", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{Seed: 1, LoseAnswer: 0.2, Timeout: always(1)})
		known := make([]driver.Record, 200)
		for i := range known {
			created := seat(1)
			created.Name = fmt.Sprint("seat/", i)
			known[i], _ = s.Swap(t.Context(), created)
		}

		for range 100 { // until a request as a whole gets through
			lost := 0
			for _, o := range c.Refresh(t.Context(), known) {
				if errors.Is(o.Err, memstore.ErrNoAnswer) {
					lost++
				} else if o.Err != nil {
					t.Fatal(o.Err)
				}
			}

			if lost > 0 && lost < len(known) {
				return
			}
		}

		t.Error("reads are lost all together or not at all")
	})
}
