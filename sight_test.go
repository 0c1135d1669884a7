package regent

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// TestSightOfARecordThatHasMoved is about a heartbeat that was read at second 1 and watched since, until a swap showed
// at moment 5 that it had been replaced: which read begins a new watch of it (rule 2)?
func TestSightOfARecordThatHasMoved(t *testing.T) {
	record := driver.Record{Name: "z", Rev: "1", Holder: driver.Identity{ID: "z", Incarnation: "1.Z"}, Nonce: 1}
	edit := record
	edit.Rev, edit.Edits = "2", 1

	for _, c := range []struct {
		name  string
		moved uint64
		shown driver.Record
		sent  uint64
		since time.Duration
	}{
		{"none_if_it_has_not_moved", 0, record, 6, time.Second},
		{"one_that_was_sent_afterwards", 5, record, 6, 9 * time.Second},
		{"not_one_that_was_sent_before", 5, record, 4, time.Second},
		{"not_one_that_shows_an_edit_of_it", 5, edit, 6, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sight{lease: record, seen: true, since: time.Second, began: moment{order: 3}, moved: c.moved}
			s.see(c.shown, moment{order: c.sent}, 9*time.Second)
			if s.since != c.since {
				t.Errorf("it is watched since %v, and not %v", s.since, c.since)
			}
			if s.renewed {
				t.Error("nobody has renewed it")
			}
			if ignored := c.sent < c.moved; (s.moved != 0) != ignored {
				t.Errorf("moved is %d after that", s.moved)
			}
		})
	}
}
