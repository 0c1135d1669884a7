package s3

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// skimmed skims the members of a store, and returns them by name.
func skimmed(t *testing.T, s *Store, age time.Duration) map[string]driver.Record {
	t.Helper()

	all := map[string]driver.Record{}
	for l, err := range s.Skim(t.Context(), driver.MemberPrefix, age) {
		if err != nil {
			t.Fatal(err)
		}
		all[l.Name] = l
	}

	return all
}

// heartbeat returns a record as its holder's next heartbeat writes it.
func heartbeat(l driver.Record, nonce uint64) driver.Record {
	l.Nonce = nonce
	return l
}

func TestSkim(t *testing.T) {
	const many = 30
	addr := fresh(shared.endpoint())
	writer := open(t, addr)
	reader := open(t, addr)

	var members []driver.Record
	for i := range many {
		id := fmt.Sprintf("n%02d", i)
		l := held(driver.MemberRegister(id), id, 1)
		l.Data = []byte(`{"healthy":true}`)
		members = append(members, swap(t, writer, l))
	}

	gets := func(f func()) uint64 {
		before := reader.Requests()["get"]
		f()
		return reader.Requests()["get"] - before
	}

	if n := gets(func() { skimmed(t, reader, time.Hour) }); n != many {
		t.Errorf("%d reads of %d registers that it did not know", n, many)
	}

	t.Run("heartbeats_are_seen_without_a_read", func(t *testing.T) {
		for i := range members {
			// nonces of every length
			members[i] = swap(t, writer, heartbeat(members[i], 1<<(2*i)))
		}

		var seen map[string]driver.Record
		if n := gets(func() { seen = skimmed(t, reader, time.Hour) }); n != 0 {
			t.Errorf("%d reads", n)
		}

		for _, m := range members {
			if got := seen[m.Name]; got.Rev != m.Rev || got.Holder != m.Holder {
				t.Errorf("%s: %+v, want revision %s of %v", m.Name, got, m.Rev, m.Holder)
			}
		}
	})

	t.Run("what_has_another_length_is_read", func(t *testing.T) {
		members[3].Data = []byte(`{"healthy":false}`)
		members[3] = swap(t, writer, heartbeat(members[3], 9))
		members[4].Holder = driver.Identity{}
		members[4] = swap(t, writer, heartbeat(members[4], 9))

		var seen map[string]driver.Record
		if n := gets(func() { seen = skimmed(t, reader, time.Hour) }); n != 2 {
			t.Errorf("%d reads, want 2", n)
		}

		if got := seen[members[3].Name]; string(got.Data) != `{"healthy":false}` {
			t.Errorf("%+v", got)
		}
		if got := seen[members[4].Name]; !got.Vacant() {
			t.Errorf("%+v", got)
		}
	})

	t.Run("what_is_older_than_asked_for_is_read", func(t *testing.T) {
		for i := range members {
			members[i] = swap(t, writer, heartbeat(members[i], uint64(100+i)))
		}

		if n := gets(func() { skimmed(t, reader, time.Nanosecond) }); n != many {
			t.Errorf("%d reads of %d", n, many)
		}
	})

	t.Run("a_list_of_smaller_names_reads_no_other", func(t *testing.T) {
		for i := range members {
			members[i] = swap(t, writer, heartbeat(members[i], uint64(300+i)))
		}

		var shown []string
		n := gets(func() {
			for l, err := range reader.ListBefore(t.Context(), driver.MemberPrefix, members[5].Name) {
				if err != nil || l.Nonce < 300 {
					t.Errorf("%+v, %v", l, err)
				}
				shown = append(shown, l.Name)
			}
		})
		if n != 5 || len(shown) != 5 || shown[4] != members[4].Name {
			t.Errorf("%d reads, shown: %v", n, shown)
		}
	})

	t.Run("a_skim_spreads_its_reads", func(t *testing.T) {
		for i := range members {
			members[i] = swap(t, writer, heartbeat(members[i], uint64(400+i)))
		}

		began := time.Now()
		if n := gets(func() { skimmed(t, reader, time.Nanosecond) }); n != many {
			t.Errorf("%d reads of %d", n, many)
		}
		if took := time.Since(began); took < 20*skimPace { // but for the last portion
			t.Errorf("it took %v", took)
		}
	})

	t.Run("skims_at_once_read_each_register_once", func(t *testing.T) {
		other := open(t, addr)
		before := other.Requests()["get"]
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				shown := 0
				for _, err := range other.Skim(t.Context(), driver.MemberPrefix, time.Hour) {
					if err != nil {
						t.Error(err)
						return
					}
					shown++
				}
				if shown != many {
					t.Errorf("a skim showed %d of %d", shown, many)
				}
			})
		}

		all.Wait()
		if n := other.Requests()["get"] - before; n != many {
			t.Errorf("%d reads of %d registers by three skims at once", n, many)
		}
	})

	t.Run("a_skim_whose_turn_does_not_come_ends_with_its_context", func(t *testing.T) {
		other := open(t, addr)
		other.skimming <- struct{}{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range other.Skim(ctx, driver.MemberPrefix, time.Hour) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		}

		waited := make(chan []driver.Outcome, 1)
		q := query{prefix: driver.MemberPrefix}
		go func() { waited <- other.paced(ctx, q, []entry{{key: other.addr.key(members[0].Name)}}, skimPace) }()
		select {
		case out := <-waited:
			if len(out) != 1 || !errors.Is(out[0].Err, context.Canceled) {
				t.Errorf("a part of it: %+v", out)
			}
		case <-time.After(time.Minute):
			t.Error("it waits for its turn although its context has ended")
		}
	})

	t.Run("a_list_that_ends_early_has_read_no_more_than_twice_what_it_showed", func(t *testing.T) {
		for stop, most := range map[int]uint64{1: 1, 2: 3, 3: 3, 5: 7, 20: many} {
			for i := range members {
				members[i] = swap(t, writer, heartbeat(members[i], uint64(200+i)))
			}

			n := gets(func() {
				shown := 0
				for _, err := range reader.List(t.Context(), driver.MemberPrefix) {
					if err != nil {
						t.Fatal(err)
					}

					if shown++; shown == stop {
						break
					}
				}
			})
			if n > most || n < uint64(stop) {
				t.Errorf("%d reads for a list that ended at register %d, want at most %d", n, stop, most)
			}
		}
	})

	t.Run("a_list_reads_all_that_has_changed", func(t *testing.T) {
		for i := range members {
			members[i] = swap(t, writer, heartbeat(members[i], uint64(500+i)))
		}

		n := gets(func() {
			skimmed(t, reader, time.Hour)
			for l, err := range reader.List(t.Context(), driver.MemberPrefix) {
				if err != nil || l.Nonce < 500 {
					t.Errorf("%+v, %v", l, err)
				}
			}
		})
		if n != many {
			t.Errorf("%d reads of %d", n, many)
		}
	})
}
