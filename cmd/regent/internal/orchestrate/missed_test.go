package orchestrate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
)

func TestMissed(t *testing.T) {
	t.Run("thousands_of_missed_slots_are_one_event", func(t *testing.T) {
		var events []regent.Event
		tm := secondTerm(t, &events)
		for i := range 3000 {
			e := entryOf(t, tenSeconds)
			e.poll.Name = fmt.Sprintf("p%04d", i)
			for n := range 5 {
				tm.addSlot(e, tm.began.Add(time.Duration(-2*n)*time.Minute))
			}
		}

		tm.step(tm.began)
		if len(events) != 1 {
			t.Fatalf("%d events", len(events))
		}
		e := events[0]
		if e.Kind != EventMissed || e.Metadata["slots"] != "12000" ||
			!strings.HasSuffix(e.Metadata["polls"], "p0009 and 2990 more") {
			t.Errorf("%+v", e)
		}
		if len(tm.open) != 3000 {
			t.Errorf("%d open", len(tm.open))
		}
	})
}
