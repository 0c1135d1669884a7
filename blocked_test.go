package regent_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// TestBlockedIsBrief has a process without bounds hold a member's ID.
func TestBlockedIsBrief(t *testing.T) {
	bubble(t, func(c *cluster) {
		long := strings.Repeat("ü", 4000)
		data, err := json.Marshal(map[string]any{"facts": map[string]string{"host": "x" + long}})
		check(t, err)
		_, err = c.store.Swap(c.ctx, driver.Record{Name: driver.MemberRegister("a"), Addr: long, Epoch: 1, Nonce: 1,
			Holder: driver.Identity{ID: "a" + long, Incarnation: "1." + long}, Duration: 6 * time.Second, Data: data})
		check(t, err)
		a := c.member("a").lead()
		time.Sleep(time.Second)

		waiting := a.kinds(regent.EventMemberWaiting)
		if len(waiting) == 0 {
			t.Fatal("it does not say that it waits")
		}
		for key, value := range waiting[0].Metadata {
			most := 100
			if key == "error" {
				most = 1000
			}
			if len(value) > most || !utf8.ValidString(value) {
				t.Errorf("%s has %d bytes, valid UTF-8: %v", key, len(value), utf8.ValidString(value))
			}
		}

		if got := waiting[0].Metadata["host"]; got != "x"+strings.Repeat("ü", 49) {
			t.Errorf("host %q", got)
		}

		a.quit()
	})
}
