package house

import (
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
)

// TestRecordsOfOtherVersions checks what docs/COMPATIBILITY.md says of records: a reader ignores fields that it does
// not know, and loses them when it writes the record; a field that is not there is empty.
func TestRecordsOfOtherVersions(t *testing.T) {
	t.Run("a_field_of_a_newer_version_is_ignored_and_lost", func(t *testing.T) {
		newer := `{"epoch":7,"nonce":"9","duration":"6s","holder":"a","incarnation":"i","weather":{"rain":true}}`
		r, err := driver.ParseRecord("n", "r", []byte(newer))
		if err != nil || r.Epoch != 7 || r.Holder.ID != "a" {
			t.Fatalf("%+v, %v", r, err)
		}
		if written := string(r.AppendJSON(nil)); strings.Contains(written, "weather") {
			t.Errorf("it wrote %s", written)
		}
	})

	t.Run("a_record_of_an_older_version_has_empty_fields", func(t *testing.T) {
		r, err := driver.ParseRecord("n", "r", []byte(`{"epoch":7,"nonce":"9","duration":"6s"}`))
		if err != nil || r.Epoch != 7 || !r.Vacant() || r.Edits != 0 || r.Paused {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
