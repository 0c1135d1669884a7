package node

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// TestDifferencesAreShort compares this node with a member that publishes long texts.
func TestDifferencesAreShort(t *testing.T) {
	long := "x" + strings.Repeat("\u00fc", 4000)
	view := regent.MemberView{ID: long, Addr: long, Incarnation: long}
	view.Facts = map[string]string{factProfile: long}

	var events []regent.Event
	var p peers
	emit := func(e regent.Event) { events = append(events, e) }
	p.compare("self", map[string]string{factProfile: "cluster"}, emit, view)
	if len(events) != 1 {
		t.Fatalf("events %v", events)
	}

	limits := map[string]int{"member": driver.MaxName, "error": 1000}
	for key, value := range events[0].Metadata {
		most := limits[key]
		if most == 0 {
			most = maxFact
		}
		if len(value) > most || !utf8.ValidString(value) {
			t.Errorf("%s has %d bytes, want at most %d, valid UTF-8: %v",
				key, len(value), most, utf8.ValidString(value))
		}
	}
}
