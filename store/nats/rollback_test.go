package nats

import (
	"errors"
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/internal/natstest"
	"github.com/regentd/regent/storetest"
)

// saved saves the files of a server, and returns a function that brings them back.
func saved(t *testing.T, m *natstest.Server) (restore func()) {
	t.Helper()
	m.Kill()
	back, err := m.Save()
	if err == nil {
		err = m.Start()
	}
	if err != nil {
		t.Fatal(err)
	}

	return func() {
		t.Helper()
		m.Kill()
		err := back()
		if err == nil {
			err = m.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// reaches writes a register until it has a sequence number, and reports whether it has exactly that one.
func reaches(t *testing.T, s *Store, l driver.Record, sequence uint64) (driver.Record, bool) {
	t.Helper()
	for sequenceOf(l.Rev) < sequence {
		l.Nonce++
		l = storetest.Swap(t, s, l)
	}
	return l, sequenceOf(l.Rev) == sequence
}

// TestRevisionsAfterARollback brings a register to the sequence number that it had before the files of the server were
// restored, with another record. What was read before must not fit.
func TestRevisionsAfterARollback(t *testing.T) {
	t.Parallel()
	all := servers(t, 1, "")
	addr := natstest.Address(all, "")
	s, other := open(t, addr), open(t, addr)
	storetest.Swap(t, s, held("a", "x", 1))
	restore := saved(t, all[0])

	lost := drivertest.Settled(t, s, "a")
	for range 30 { // the reads below take numbers too
		lost.Nonce = 7
		lost = storetest.Swap(t, s, lost)
	}

	for again := range 2 { // gone back, and gone back once more
		restore()
		l, same := reaches(t, other, drivertest.Settled(t, other, "a"), sequenceOf(lost.Rev))
		if !same || l.Rev == lost.Rev {
			t.Fatalf("revision %s after the rollback, %s before: the test wants the same number", l.Rev, lost.Rev)
		}
		if _, err := s.Swap(drivertest.Short(t), lost); !errors.Is(err, driver.ErrConflict) {
			t.Errorf("time %d: a swap from before the rollback: %v, want ErrConflict", again, err)
		}
		if err := s.Remove(drivertest.Short(t), lost); !errors.Is(err, driver.ErrConflict) {
			t.Errorf("time %d: a removal from before the rollback: %v, want ErrConflict", again, err)
		}
		if o := s.Refresh(drivertest.Short(t), []driver.Record{lost})[0]; o.Err != nil || o.Record.Rev != l.Rev {
			t.Errorf("time %d: Refresh shows %+v, %v, want revision %s", again, o.Record, o.Err, l.Rev)
		}
	}
}

// TestGoneBack checks that the number of a message shows that the stream has gone back.
func TestGoneBack(t *testing.T) {
	var k known
	k.add("a", "10/x")
	before := k.before()
	if k.after(before, 11) || !k.has("a", "10/x") {
		t.Error("a later number counts as gone back")
	}
	k.add("a", "9/late")
	if !k.has("a", "10/x") {
		t.Error("an answer that came late has replaced a newer one")
	}
	if before = k.before(); !k.after(before, 11) || k.has("a", "10/x") {
		t.Error("the same number again does not count as gone back")
	}
	k.add("a", "9/y")
	if !k.has("a", "9/y") || k.has("a", "") || k.has("b", "") {
		t.Error("a revision from after that is not known, or one that nobody has seen is")
	}
}

// TestMembersAfterARollback restores the files of a server under members that remember more than they show. They say
// so, wait, and lead beyond every epoch that they have seen.
func TestMembersAfterARollback(t *testing.T) {
	t.Parallel()
	all := servers(t, 1, "")
	c := drivertest.NewCandidates(t, election)
	store := open(t, natstest.Address(all, ""))
	m := c.Join("a", store, drivertest.Quick())
	_, epoch := c.Leads(0)
	restore := saved(t, all[0])
	drivertest.Settled(t, store, election)
	_, epoch = c.Leads(epoch - 1)
	c.GoBack(m, epoch, restore)
}

// TestStreamDeleted deletes the stream under a store. The store creates it again, and no revision comes twice.
func TestStreamDeleted(t *testing.T) {
	t.Parallel()
	s := open(t, fresh())
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	l := storetest.Swap(t, s, held("a", "x", 1))
	drivertest.Listens(t, s, woken)
	js := plain(t, shared)

	for range 2 { // gone, and gone once more
		if err := js.DeleteStream(t.Context(), s.addr.stream); err != nil {
			t.Fatal(err)
		}
		drivertest.Zero(t, woken)
		drivertest.Eventually(t, "the store says that the register was never written", func() bool {
			_, err := s.Get(drivertest.Short(t), "a")
			return errors.Is(err, driver.ErrNotFound)
		})
		if _, err := s.Swap(t.Context(), l); !errors.Is(err, driver.ErrConflict) {
			t.Errorf("a swap from before: %v, want ErrConflict", err)
		}
		again := storetest.Swap(t, s, held("a", "x", 1))
		if sequenceOf(again.Rev) <= sequenceOf(l.Rev) {
			t.Errorf("revision %s after %s: the numbers of the stream began again", again.Rev, l.Rev)
		}
		l = again
		drivertest.Listens(t, s, woken)
	}

	reader := storetest.Opened[*Store](t)(Open(t.Context(), s.String(), Options{NoProbe: true}))
	if err := js.DeleteStream(t.Context(), s.addr.stream); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Get(drivertest.Short(t), "a"); err == nil || errors.Is(err, driver.ErrNotFound) ||
		!strings.Contains(err.Error(), "nobody answers for the stream") {
		t.Errorf("a read of a stream that was deleted: %v", err)
	}
}
