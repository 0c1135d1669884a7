package etcd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Open {
		addr := fresh()
		return func() (driver.Store, error) { return Open(t.Context(), addr, Options{}) }
	})
}

func TestUnreadable(t *testing.T) {
	storetest.RunUnreadable(t, func(t *testing.T) (storetest.Open, func(string) error) {
		addr := fresh()
		a, err := parseAddress(addr, Options{})
		if err != nil {
			t.Fatal(err)
		}
		client := plain(t, shared...)
		open := func() (driver.Store, error) { return Open(t.Context(), addr, Options{}) }
		return open, func(name string) error {
			_, err := client.Put(t.Context(), a.prefix+name, `{"rev":`)
			return err
		}
	})
}

// TestList checks prefixes that end where names are hard to order, and neighbours of the store's own prefix.
func TestList(t *testing.T) {
	addr := fresh()
	s := open(t, addr)
	for _, neighbour := range []string{addr + "0", addr + "/x", strings.TrimSuffix(addr, addr[len(addr)-1:])} {
		storetest.Swap(t, open(t, neighbour), held("a", "x", 1))
	}
	names := []string{"a", "a/", "a/b", "a0", "aé", "aéz", "a\U0010ffff", "a\U0010ffffz", "b", "A", "ä", "~"}
	for _, n := range names {
		storetest.Swap(t, s, held(n, "x", 1))
	}

	all := storetest.Names(t, s, "")
	if i := slices.IndexFunc(all, func(n string) bool { return strings.HasPrefix(n, "x/") }); i < 0 {
		t.Fatalf("List yields %q, without the store below its own prefix", all)
	}
	for _, prefix := range []string{"a", "a/", "aé", "a\U0010ffff", "b", "~", "zz"} {
		var want []string
		for _, n := range names {
			if strings.HasPrefix(n, prefix) {
				want = append(want, n)
			}
		}
		got := storetest.Names(t, s, prefix)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("List(%q) yields %q, want %q", prefix, got, want)
		}
	}
}

// TestLargeBatch swaps more than one transaction may hold, by number and by size, with conflicts in between.
func TestLargeBatch(t *testing.T) {
	s := open(t, fresh())
	var all []driver.Record
	for i := range 250 {
		l := held(fmt.Sprintf("e%03d", i), "x", 1)
		if i%5 == 0 {
			l.Data = bytes.Repeat([]byte{byte(i)}, driver.MaxData)
		}
		all = append(all, l)
	}
	all = append(all, all[7]) // a register twice

	won := 0
	for i, o := range s.SwapAll(t.Context(), all) {
		switch {
		case i == 7 || i == 250:
			if o.Err == nil {
				won++
				all[7] = o.Record
			} else if !errors.Is(o.Err, driver.ErrConflict) {
				t.Error(o.Err)
			}
		case o.Err != nil:
			t.Fatal(o.Err)
		default:
			all[i] = o.Record
		}
	}
	if won != 1 {
		t.Errorf("%d of two swaps of one register were applied", won)
	}

	all = all[:250]
	stale := storetest.Swap(t, s, all[3])
	for i, o := range s.SwapAll(t.Context(), all) {
		if want := i == 3; errors.Is(o.Err, driver.ErrConflict) != want || !want && o.Err != nil {
			t.Errorf("register %d: %v", i, o.Err)
		}
		if i != 3 {
			all[i] = o.Record
		}
	}
	all[3] = stale

	before := s.Requests()["refresh"]
	for i, o := range s.Refresh(t.Context(), all) {
		if o.Err != nil || o.Record.Rev != all[i].Rev {
			t.Errorf("Refresh of register %d: %+v, %v", i, o.Record.Rev, o.Err)
		}
	}
	if n := s.Requests()["refresh"] - before; n != 6 {
		t.Errorf("%d requests to compare 250 registers, want 6", n)
	}
}

// TestRecordIsPlainJSON checks what docs/STORES.md shows of a key.
func TestRecordIsPlainJSON(t *testing.T) {
	s := open(t, fresh())
	storetest.Swap(t, s, held(election, "node-a", 7))
	answer, err := plain(t, shared...).Get(t.Context(), s.addr.prefix+election)
	if err != nil || len(answer.Kvs) != 1 {
		t.Fatalf("%v, %v", answer, err)
	}
	var got struct {
		Rev    string
		Epoch  uint64
		Holder string
	}
	if err := json.Unmarshal(answer.Kvs[0].Value, &got); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.Rev, "7/NODE-A1/") || got.Epoch != 7 || got.Holder != "node-a" {
		t.Errorf("the key holds %s", answer.Kvs[0].Value)
	}
}

// TestHandEdit changes a record with etcd's own tool: whoever has read it before must read again.
func TestHandEdit(t *testing.T) {
	s := open(t, fresh())
	l := storetest.Swap(t, s, held("a", "x", 1))
	client := plain(t, shared...)
	answer, err := client.Get(t.Context(), s.key("a"))
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.TrimSuffix(string(answer.Kvs[0].Value), "}") + `,"paused":true}`
	if _, err := client.Put(t.Context(), s.key("a"), edited); err != nil {
		t.Fatal(err)
	}
	if got := s.Refresh(t.Context(), []driver.Record{l})[0]; got.Err != nil || !got.Record.Paused {
		t.Errorf("Refresh after the change: %+v, want what the register shows", got)
	}
	if _, err := s.Swap(t.Context(), l); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("a swap on the revision before: %v, want ErrConflict", err)
	}
	storetest.Swap(t, s, drivertest.Settled(t, s, "a"))
}
