package memstore_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// fates runs a client with many faults, and returns the outcome of each request.
func fates(t *testing.T, name string, seed uint64, disturb bool) (all []string) {
	virtual.Test(t, func(t *testing.T) {
		s := memstore.New()
		c := s.Client(name, memstore.Faults{
			Seed: seed, Request: memstore.Delay{Max: time.Second}, Answer: memstore.Delay{Max: time.Second},
			LoseRequest: 0.2,
			LoseAnswer:  0.2, ApplyLate: 0.2, Late: memstore.Delay{Max: time.Second}, Conflict: 0.2,
			Timeout: memstore.Delay{Max: time.Minute},
		})

		var others sync.WaitGroup
		for i := range 200 {
			if disturb { // requests for other registers, at the same time
				others.Go(func() { c.Get(t.Context(), fmt.Sprint("other/", i)) })
			}

			begin := time.Now()
			l, err := s.Get(t.Context(), "seat")
			if err != nil {
				l = seat(0)
			}

			_, err = c.Swap(t.Context(), l)
			all = append(all, fmt.Sprint(time.Since(begin), err))
		}

		others.Wait()
	})

	return all
}

func TestASeedReplays(t *testing.T) {
	first := fates(t, "a", 1, false)
	if again := fates(t, "a", 1, false); !slices.Equal(first, again) {
		t.Error("the same seed gives another storm")
	}

	if again := fates(t, "a", 1, true); !slices.Equal(first, again) {
		t.Error("requests for other registers change what is drawn for this one")
	}

	if again := fates(t, "a", 2, false); slices.Equal(first, again) {
		t.Error("another seed gives the same storm")
	}

	if again := fates(t, "b", 1, false); slices.Equal(first, again) {
		t.Error("another client meets the same storm")
	}
}

func TestHooks(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := memstore.New()
		var history, sent []string
		begin := time.Now()
		s.OnSwap = func(old, new driver.Record, client string) {
			history = append(history, fmt.Sprintf("%s %s: %d to %d", client, new.Name, old.Nonce, new.Nonce))
		}

		s.OnRollback = func(changes []memstore.Change) {
			history = append(history, fmt.Sprintf("rollback of %d", len(changes)))
		}
		s.OnRequest = func(r memstore.Request) {
			sent = append(sent, fmt.Sprintf("%v %s %v %s", r.At.Sub(begin), r.Client, r.Kind, r.Name))
		}

		c := s.Client("c", memstore.Faults{Request: always(time.Second)})
		l, _ := c.Swap(t.Context(), seat(1))
		l.Nonce = 2
		s.SwapAll(t.Context(), []driver.Record{l, l})
		s.Flush()
		c.SetFaults(memstore.Faults{CutRequests: true})

		c.Get(within(t, time.Second), "seat")
		for range s.List(t.Context(), "s") {
		}

		if want := []string{"c seat: 0 to 1", " seat: 1 to 2", "rollback of 1"}; !slices.Equal(history, want) {
			t.Errorf("history is %q, want %q", history, want)
		}

		if want := []string{"0s c swap seat", "1s  swap all ", "1s c get seat", "2s  list s"}; !slices.Equal(sent,
			want) {
			t.Errorf("requests are %q, want %q", sent, want)
		}

		if got, want := c.Counts(), (memstore.Counts{Gets: 1, Swaps: 1}); got != want {
			t.Errorf("the client counts %+v, want %+v", got, want)
		}

		got := s.Counts()
		if want := (memstore.Counts{Gets: 1, Swaps: 1, Lists: 1, SwapAlls: 1}); got != want || got.Writes() != 2 ||
			got.Total() != 4 {
			t.Errorf("the store counts %+v, want %+v", got, want)
		}
	})
}
