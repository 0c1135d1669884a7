package sqlite

import (
	"testing"

	"github.com/regentd/regent"
)

func TestARestoreInPlaceKillsNobody(t *testing.T) {
	s := fresh(t)
	l := swap(t, s, regent.Lease{Name: "seat", Nonce: 1})
	copied := backup(t, s)

	c := start(t, nil, "hold", s.path, "seat", "seen")
	c.line(t)
	dead, err := s.Get(t.Context(), "seat")
	if err != nil {
		t.Fatal(err)
	}
	c.kill(t)
	c.bury()
	if !s.Gone(t.Context(), dead) {
		t.Fatal("the holder was killed, and is not gone")
	}

	restore(t, s, copied)
	next := held("seat", "me", 7)
	next.Rev = l.Rev
	mine := swap(t, open(t, s.path), next)
	if s.Gone(t.Context(), mine) {
		t.Error("this process is declared dead: its revision was that of a dead one before the restore")
	}
	if s.Gone(t.Context(), dead) {
		t.Error("a record that the restore undid still has a witness")
	}
}
