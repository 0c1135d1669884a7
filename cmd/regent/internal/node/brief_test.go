package node

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// TestPeersAreBrief compares this node with a member that publishes without bounds.
func TestPeersAreBrief(t *testing.T) {
	long := "x" + strings.Repeat("\u00fc", 4000)
	view := regent.MemberView{ID: long, Addr: long, Incarnation: long}
	view.Facts = map[string]string{factProfile: long}

	var said []regent.Event
	var p peers
	p.see(map[string]string{factProfile: "cluster"}, func(e regent.Event) { said = append(said, e) }, view)
	if len(said) != 1 {
		t.Fatalf("it says %v", said)
	}
	limits := map[string]int{"member": driver.MaxName, "error": 1000}
	for key, value := range said[0].Metadata {
		most := limits[key]
		if most == 0 {
			most = maxBrief
		}
		if len(value) > most || !utf8.ValidString(value) {
			t.Errorf("%s has %d bytes, want at most %d, valid UTF-8: %v", key, len(value), most, utf8.ValidString(value))
		}
	}
}
