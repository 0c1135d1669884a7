package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func TestAnUnreadableRegister(t *testing.T) {
	for fact, change := range map[string]string{
		"whose_record_is_no_JSON":          `rev = hex(randomblob(16)), record = 'oops'`,
		"whose_record_is_another_JSON":     `rev = hex(randomblob(16)), record = '{"nonce":1}'`,
		"whose_record_is_a_blob":           `rev = hex(randomblob(16)), record = x'ff00fe'`,
		"whose_record_is_a_number":         `rev = hex(randomblob(16)), record = 42`,
		"whose_revision_is_a_blob":         `rev = randomblob(16)`,
		"whose_revision_is_empty":          `rev = ''`,
		"of_which_nothing_is_what_it_was":  `rev = randomblob(16), moved = 'soon', writer = x'ff', record = x''`,
		"that_has_moved_beyond_all_others": `rev = '', moved = 9223372036854775807`,
	} {
		t.Run(fact, func(t *testing.T) {
			storetest.RunUnreadable(t, func(t *testing.T) (storetest.Open, func(string) error) {
				path := filepath.Join(t.TempDir(), "regent.db")
				open := func() (driver.Store, error) { return Open(t.Context(), path, Options{}) }
				corrupt := func(name string) error {
					db, err := sql.Open("sqlite", dsn(path, "mode=rw&_busy_timeout=10000"))
					if err != nil {
						return err
					}
					defer db.Close()

					_, err = db.Exec(`UPDATE regent_lease SET `+change+` WHERE name = ?`, name)
					return err
				}

				return open, corrupt
			})
		})
	}
}

// Odd values in the columns of one register must not hide the changes of others.
func TestAnOddColumnHidesNoChange(t *testing.T) {
	for fact, change := range map[string]string{
		"a_text_in_place_of_the_last_change":   `moved = 'soon'`,
		"a_blob_in_place_of_the_last_change":   `moved = x'00'`,
		"a_last_change_beyond_all_others":      `moved = 9223372036854775807`,
		"a_fraction_in_place_of_a_last_change": `moved = 2000000000000000.5`,
		"a_writer_that_is_none":                `writer = x'ff'`,
	} {
		t.Run(fact, func(t *testing.T) {
			s := fresh(t)
			storetest.Swap(t, s, held("odd", "h", 1))
			storetest.Swap(t, s, held("seat too", "h", 1))
			l := storetest.Swap(t, s, held("seat", "h", 1))
			db := raw(t, s.path)
			corrupt := func(name string) {
				_, err := db.Exec(`UPDATE regent_lease SET rev = hex(randomblob(16)), `+change+` WHERE name = ?`, name)
				if err != nil {
					t.Fatal(err)
				}
			}

			corrupt("odd")
			wake := s.Subscribe(t.Context(), driver.Prefix("seat"))
			other := s.Subscribe(t.Context(), driver.Prefix("other"))
			for i := range 6 {
				if i == 3 { // once more, while somebody waits
					corrupt("seat too")
				}

				l.Epoch++
				l = storetest.Swap(t, s, l)
				select {
				case <-wake:
				case <-time.After(20 * time.Second):
					t.Fatal("no notice of a change")
				}
			}

			if len(other) != 0 {
				t.Error("who watches nothing of it was woken")
			}

			if _, err := s.Get(t.Context(), "odd"); err != nil {
				t.Error(err)
			}
		})
	}
}
