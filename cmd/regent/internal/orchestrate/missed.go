package orchestrate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// addMissedLocked counts slots that are too late to be run. The event is sent by emitMissedLocked.
func (t *term) addMissedLocked(e *entry, n uint64, reason string) {
	e.count(outcomeMissed, n)
	t.changes++
	t.o.count(outcomeMissed, e.poll.Kind, 0, n)

	if t.missed == nil {
		t.missed = map[string]uint64{}
		t.missedReasons = map[string]bool{}
	}
	t.missed[e.poll.Name] += n
	t.missedReasons[reason] = true
}

// emitMissedLocked sends one event for all missed slots: there may be thousands, and observers must not lose other
// events because of them.
func (t *term) emitMissedLocked() {
	if len(t.missed) == 0 {
		return
	}

	total := uint64(0)
	for _, n := range t.missed {
		total += n
	}

	const most = 10
	polls := slices.Sorted(maps.Keys(t.missed))
	text := strings.Join(polls[:min(len(polls), most)], ", ")
	if more := len(polls) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	reasons := slices.Sorted(maps.Keys(t.missedReasons))
	if more := len(reasons) - most; more > 0 {
		reasons = append(reasons[:most], fmt.Sprintf("and %d more reasons", more))
	}

	t.emit(EventMissed, map[string]string{
		"polls":  text,
		"slots":  strconv.FormatUint(total, 10),
		"reason": strings.Join(reasons, "; "),
	})
	t.missed = nil
	t.missedReasons = nil
}
