package schedule

import "testing"

func TestSlotID(t *testing.T) {
	for _, s := range []Slot{
		{Due: 1794725637240},
		{Due: 5, Attempt: 3},
		{Due: 5, Repeat: 9},
		{Due: 5, Repeat: 9, Attempt: 2},
		{Due: 7, Manual: true},
		{Due: 7, Manual: true, Attempt: 1},
	} {
		s.Name = "a.b-c_d"
		t.Run("is_read_as_it_was_written/"+s.String(), func(t *testing.T) {
			if got, ok := ParseSlot(s.String()); !ok || got != s {
				t.Errorf("%+v %v", got, ok)
			}
		})
	}

	t.Run("has_a_form_that_never_changes", func(t *testing.T) { // journals and checkpoints keep it
		want := "p/now-5~9#2"
		if got := (Slot{Name: "p", Due: 5, Manual: true, Repeat: 9, Attempt: 2}).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})

	for _, id := range []string{
		"", "x", "x/", "x/y", "x/1#", "x/1#y", "x/1#-1", "/", "x/now-", "x/1~", "x/1~0", "x/1~-1", "x/1~a", "x/~1",
	} {
		t.Run("is_not_read_from_"+id, func(t *testing.T) {
			if s, ok := ParseSlot(id); ok {
				t.Errorf("%+v", s)
			}
		})
	}
}
