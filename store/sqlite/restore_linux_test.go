package sqlite

import (
	"bufio"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func TestARestoreInPlaceKillsNobody(t *testing.T) {
	s := fresh(t)
	l := storetest.Swap(t, s, driver.Record{Name: "seat", Nonce: 1})
	copied := backup(t, s)

	c := start(t, nil, "hold", s.path, "seat", "seen")
	c.line(t)
	dead, err := s.Get(t.Context(), "seat")
	if err != nil {
		t.Fatal(err)
	}

	c.kill(t)
	c.awaitExit()
	if !s.Gone(t.Context(), dead) {
		t.Fatal("the holder was killed, and is not gone")
	}

	restore(t, s, copied)
	next := held("seat", "me", 7)
	next.Rev = l.Rev
	mine := storetest.Swap(t, open(t, s.path), next)
	if s.Gone(t.Context(), mine) {
		t.Error("this process is declared dead: its revision was that of a dead one before the restore")
	}
}

func init() { roles["restore"] = restoreRole }

// restoreRole restores a copy: args are the database and the copy.
func restoreRole(_ *bufio.Scanner, args []string) error { return restoreInto(args[0], args[1]) }

// restoreElsewhere restores a copy in another process, as a shell does.
func restoreElsewhere(t testing.TB, s *Store, copied string) {
	t.Helper()
	start(t, nil, "restore", s.path, copied).wait(t)
}

func TestARestoreInPlaceNotifies(t *testing.T) {
	s := fresh(t)
	other := open(t, s.path)
	wake := s.Subscribe(t.Context(), driver.Prefix("seat"))
	l := storetest.Swap(t, other, held("seat", "a", 1))
	woken(t, wake)
	copied := backup(t, s)

	for range 10 {
		l.Epoch++
		l.Nonce++
		l = storetest.Swap(t, other, l)
		woken(t, wake)
	}

	restoreElsewhere(t, other, copied)
	if got := woken(t, wake); got.Name != "" {
		t.Errorf("the notice names %q, and any register may have gone back", got.Name)
	}

	t.Run("so_does_every_change_after_it", func(t *testing.T) {
		l, err := other.Get(t.Context(), "seat")
		if err != nil || l.Epoch != 1 {
			t.Fatalf("the register shows epoch %d, %v", l.Epoch, err)
		}

		for range 3 {
			l.Epoch++
			l.Nonce++
			l = storetest.Swap(t, other, l)
			woken(t, wake)
		}
	})

	t.Run("so_does_the_death_of_who_holds_a_register_after_it", func(t *testing.T) {
		c := start(t, nil, "hold", s.path, "seat", "seen")
		c.line(t)
		woken(t, wake)
		copied := backup(t, s)
		l, err := other.Get(t.Context(), "seat")
		if err != nil {
			t.Fatal(err)
		}

		storetest.Swap(t, other, driver.Record{Name: "seat", Rev: l.Rev, Epoch: l.Epoch, Nonce: 9})
		woken(t, wake)
		late := open(t, s.path)
		// The register is vacant: there is nobody to watch.
		notices := late.Subscribe(t.Context(), driver.Prefix("seat"))
		restoreElsewhere(t, other, copied)
		woken(t, notices)

		c.kill(t)
		woken(t, notices)
	})
}

// woken waits for a notification.
func woken(t testing.TB, wake <-chan driver.Record) driver.Record {
	t.Helper()
	select {
	case l := <-wake:
		return l
	case <-time.After(20 * time.Second):
		t.Fatal("no notice came")
	}
	return driver.Record{}
}
