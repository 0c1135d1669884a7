package nats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
	js := plain(t, shared)
	storetest.RunUnreadable(t, func(t *testing.T) (storetest.Open, func(string) error) {
		addr := fresh()
		a, err := parseAddress(addr, Options{})
		if err != nil {
			t.Fatal(err)
		}
		open := func() (driver.Store, error) { return Open(t.Context(), addr, Options{}) }
		return open, func(name string) error {
			_, err := js.Publish(t.Context(), a.registers()+encodeName(name), []byte(`{"epoch":`))
			return err
		}
	})
}

// names are hard to tell apart once they are written as subjects, or hard to list by their prefix.
var names = []string{
	"a", "A", "a/", "/a", "a//b", "a/b", "a/b/", "a.b", "a=2Fb", "a=2E", "a=b", "=", "*", ">", "a/*", "a/>", "a b", "ä",
	"a\U0010ffff", "%", "$JS", "regent/member/", "regent/member//", "regent/member/x", "regent/member/x/y", "/", "//",
	"///", strings.Repeat("/", 250), strings.Repeat("x/", 124) + "x", strings.Repeat("ä", 125), "a/b/c/d", "a/bb/c",
}

func TestSubjectsOfNames(t *testing.T) {
	seen := map[string]string{}
	for _, name := range names {
		tokens := encodeName(name)
		if other, ok := seen[tokens]; ok {
			t.Errorf("%q and %q are both written as %s", name, other, tokens)
		}
		seen[tokens] = name
		if got, ok := decodeName(tokens); !ok || got != name {
			t.Errorf("%q is written as %s, and read as %q, %v", name, tokens, got, ok)
		}
		if slices.Contains(strings.Split(tokens, "."), "") || strings.ContainsAny(tokens, "*> ") {
			t.Errorf("%q is written as %s, which is no subject", name, tokens)
		}
	}
	for _, tokens := range []string{"", "a=2", "a=zz", "a=62", "a=2f", "a..b", ".a", "a b", "a=00", "a=ff"} {
		if name, ok := decodeName(tokens); ok {
			t.Errorf("%s, which no name is written as, is read as %q", tokens, name)
		}
	}
}

func TestList(t *testing.T) {
	s := open(t, fresh())
	for _, name := range names {
		storetest.Swap(t, s, held(name, "x", 1))
		if got, err := s.Get(t.Context(), name); err != nil || got.Name != name {
			t.Errorf("Get(%q): %q, %v", name, got.Name, err)
		}
	}

	prefixes := []string{"", "a", "a/", "a/b", "a/b/", "a/b/c", "a/b/c/", "a//", "/", "//", "regent/", "regent/member/",
		"regent/member/x", "regent/member/x/", "ä", "zz", "x/x/x/"}
	for _, prefix := range prefixes {
		var want []string
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		if got := storetest.Names(t, s, prefix); !slices.Equal(got, want) {
			t.Errorf("List(%q) yields %q, want %q", prefix, got, want)
		}
	}
}

// TestLargeBatch swaps and reads more than one request may hold, by number and by size, with conflicts in between.
func TestLargeBatch(t *testing.T) {
	s := open(t, fresh())
	var all []driver.Record
	for i := range 1100 {
		l := held(fmt.Sprintf("e%04d", i), "x", 1)
		if i%2 == 0 {
			l.Data = bytes.Repeat([]byte{byte(i)}, driver.MaxData)
		}
		all = append(all, l)
	}
	for i, o := range s.SwapAll(t.Context(), all) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		all[i] = o.Record
	}

	before := s.Requests()["refresh"]
	s.Refresh(t.Context(), all)
	if n := s.Requests()["refresh"] - before; n < 10 || n > 50 {
		t.Errorf("%d requests for 48 MB: an answer is larger than a server sends, or very small", n)
	}

	stale := all[3]
	all[3] = storetest.Swap(t, s, all[3])
	for i, o := range s.Refresh(t.Context(), append(slices.Clone(all), stale, driver.Record{Name: "none"})) {
		switch {
		case i == len(all)+1:
			if !errors.Is(o.Err, driver.ErrNotFound) {
				t.Errorf("Refresh of a register that was never written: %v", o.Err)
			}
		case i == len(all):
			i = 3
			fallthrough
		default:
			if o.Err != nil || o.Record.Rev != all[i].Rev || !bytes.Equal(o.Record.Data, all[i].Data) {
				t.Errorf("Refresh of register %d: %s, %v, want %s", i, o.Record.Rev, o.Err, all[i].Rev)
			}
		}
	}
	if got := storetest.Names(t, s, "e"); len(got) != len(all) {
		t.Errorf("List yields %d registers of %d", len(got), len(all))
	}

	batch := []driver.Record{all[0], stale, all[2]}
	for i, o := range s.SwapAll(t.Context(), batch) {
		if conflict := errors.Is(o.Err, driver.ErrConflict); conflict != (i == 1) || !conflict && o.Err != nil {
			t.Errorf("swap %d of the batch: %v", i, o.Err)
		}
	}
}

// TestRecordIsPlainJSON checks what docs/STORES.md shows of a message.
func TestRecordIsPlainJSON(t *testing.T) {
	s := open(t, fresh())
	l := storetest.Swap(t, s, held("regent/member/node-a", "node-a", 7))
	m, err := s.stream.GetLastMsgForSubject(t.Context(), s.addr.stream+".r.regent.member.node-a")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Epoch  uint64
		Holder string
	}
	if err := json.Unmarshal(m.Data, &got); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%d/%s", m.Sequence, m.Header.Get(nats.MsgIdHdr))
	if got.Epoch != 7 || got.Holder != "node-a" || l.Rev != want {
		t.Errorf("revision %s is message %d: %v %s", l.Rev, m.Sequence, m.Header, m.Data)
	}
}

// TestHandEdit publishes a record again with another client: whoever has read it before must read again.
func TestHandEdit(t *testing.T) {
	s := open(t, fresh())
	l := storetest.Swap(t, s, held("a", "x", 1))
	if _, err := plain(t, shared).Publish(t.Context(), s.addr.registers()+"a", l.AppendJSON(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Swap(t.Context(), l); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("a swap on the revision before: %v, want ErrConflict", err)
	}
	storetest.Swap(t, s, drivertest.Settled(t, s, "a"))
}

// TestRefusals checks which answers of a server prove a conflict: see [Store.judgeAck].
func TestRefusals(t *testing.T) {
	s := open(t, fresh())
	l := storetest.Swap(t, s, held("a", "x", 1))
	now := sequenceOf(l.Rev)
	moved := storetest.Swap(t, s, l)
	refusal := func(code jetstream.ErrorCode, text string) ack {
		return ack{Error: &jetstream.APIError{ErrorCode: code, Description: text}}
	}
	wrong := func(n uint64) ack {
		return refusal(jetstream.JSErrCodeStreamWrongLastSequence, fmt.Sprint("wrong last sequence: ", n))
	}

	for _, c := range []struct {
		name string
		on   driver.Record
		ack  ack
		want error
	}{
		{"a_later_message", l, wrong(now + 1), driver.ErrConflict},
		{"an_earlier_message_and_the_register_has_moved", l, wrong(now - 1), errUnclear},
		{"an_earlier_message_and_the_register_has_not_moved", moved, wrong(now), errAgain},
		{"another_write_is_under_way", l,
			refusal(jetstream.JSErrCodeStreamWrongLastSequenceConstant, "wrong last sequence"), errAgain},
		{"the_same_write_is_under_way", l, refusal(codeDuplicateUnderWay, "duplicate"), errAgain},
		{"the_register_is_there", driver.Record{Name: "a"}, wrong(now), driver.ErrConflict},
		{"nobody_has_written_the_register", driver.Record{Name: "b"}, wrong(now), errAgain},
		{"the_register_is_gone", driver.Record{Name: "b", Rev: l.Rev}, wrong(0), driver.ErrConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := s.judgeAck(t.Context(), c.on, c.ack, sequenceOf(c.on.Rev)); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}

	full := refusal(10023, "insufficient resources")
	_, err := s.judgeAck(t.Context(), l, full, now)
	if err == nil || errors.Is(err, driver.ErrConflict) || errors.Is(err, errAgain) {
		t.Errorf("a server without resources: %v, want an unknown outcome", err)
	}
}

// TestRemovedRegister removes a register whose last message the server does not delete. It still counts as never
// written.
func TestRemovedRegister(t *testing.T) {
	addr := fresh()
	s := open(t, addr)
	cfg := s.stream.CachedInfo().Config
	cfg.DenyDelete = true
	if _, err := plain(t, shared).UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}

	drivertest.Listens(t, s, s.Subscribe(t.Context(), driver.Names("a", "probe")))
	kept := func() bool {
		s.notifier.mu.Lock()
		defer s.notifier.mu.Unlock()
		_, ok := s.notifier.last["a"]
		return ok
	}

	l := held("a", "x", 3)
	l.Holder = driver.Identity{}
	l = storetest.Swap(t, s, l)
	drivertest.Eventually(t, "the notifications have shown it", kept)
	if err := s.Remove(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	drivertest.Eventually(t, "what they have shown is forgotten", func() bool { return !kept() })
	if _, err := s.stream.GetLastMsgForSubject(t.Context(), s.addr.registers()+"a"); err != nil {
		t.Fatalf("the message that marks the removal: %v", err)
	}
	if got, err := s.Get(t.Context(), "a"); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Get: %+v, %v, want ErrNotFound", got, err)
	}
	if got := storetest.Names(t, s, "a"); len(got) != 0 {
		t.Errorf("List yields %q", got)
	}
	for _, again := range []error{s.Remove(t.Context(), l), second(s.Swap(t.Context(), l))} {
		if !errors.Is(again, driver.ErrConflict) {
			t.Errorf("on the revision before its removal: %v, want ErrConflict", again)
		}
	}
	l.Rev = ""
	if got := storetest.Swap(t, open(t, addr), l); got.Rev == l.Rev {
		t.Error("a revision was used again")
	}
	if _, err := s.Swap(t.Context(), l); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("a second creation: %v, want ErrConflict", err)
	}
}

// TestOwnMessage finds a write of our own behind a conflict.
func TestOwnMessage(t *testing.T) {
	s := open(t, fresh())
	l := storetest.Swap(t, s, held("a", "x", 1))
	_, stamp, _ := strings.Cut(l.Rev, "/")
	if n, err := s.own(t.Context(), "a", stamp); err != nil || n != sequenceOf(l.Rev) {
		t.Errorf("%d, %v, want %s", n, err, l.Rev)
	}
	for _, c := range [][2]string{{"a", "other"}, {"b", stamp}, {"b", ""}} {
		if _, err := s.own(t.Context(), c[0], c[1]); !errors.Is(err, driver.ErrConflict) {
			t.Errorf("register %s, stamp %q: %v, want ErrConflict", c[0], c[1], err)
		}
	}
}

func second(_ driver.Record, err error) error { return err }
