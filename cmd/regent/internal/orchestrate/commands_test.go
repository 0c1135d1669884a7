package orchestrate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/schedule"
)

func TestReplace(t *testing.T) {
	for what, change := range map[string]func(*entry) *entry{
		"disabled": func(e *entry) *entry {
			e.poll.Enabled = false
			return e
		},
		"changed": func(e *entry) *entry { return e },
		"removed": func(*entry) *entry { return nil },
		"retimed": func(e *entry) *entry {
			e.poll.Interval *= 2
			return e
		},
		"recreated": func(e *entry) *entry {
			e.poll.Target = "other:1"
			return e
		},
	} {
		t.Run("a_poll_with_waiting_slots_can_be_"+what, func(t *testing.T) {
			tm := secondTerm(t, nil)
			old := entryOf(t, tenSeconds)
			first := tm.addSlot(old, tm.began)
			second := tm.addSlot(old, tm.began.Add(time.Second))
			manual := newSlot(old, schedule.Slot{Due: tm.began.UnixMilli(), Manual: true})
			manual.done = make(chan Run, 1)
			old.enqueue(manual)
			tm.open[manual] = struct{}{}

			e := entryOf(t, tenSeconds)
			e.poll.Since = time.Now()
			e = change(e)
			tm.replace(old, e)
			for i := range 3 {
				tm.step(time.Now().Add(time.Duration(i) * 2 * time.Second))
			}

			stays := e != nil && e.poll.Enabled
			if first.settled == stays || second.settled == stays || len(old.queue) != 0 {
				t.Errorf("settled %v %v, old queue %v", first.settled, second.settled, old.queue)
			}
			if slices.Contains(tm.pending, old) {
				t.Error("the old entry is still pending")
			}
			if e != nil {
				return
			}
			if len(tm.entries) != 0 || len(tm.pending) != 0 || len(tm.open) != 0 {
				t.Errorf("%d entries, %d pending, %d open", len(tm.entries), len(tm.pending), len(tm.open))
			}
			if r := <-manual.done; !strings.Contains(r.Message, "removed") {
				t.Errorf("got %+v", r)
			}
		})
	}
}
