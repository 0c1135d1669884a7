package schedule

import (
	"strconv"
	"strings"
	"time"
)

// Slot identifies one attempt to run a poll.
type Slot struct {
	Name    string // of the poll
	Due     int64  // Unix milliseconds
	Manual  bool   // requested by a user, not due by the schedule
	Repeat  int64  // not 0 if the slot may have run before a clock was set back: distinguishes the two runs
	Attempt int    // 0 for the first
}

const manualPrefix = "now-"

// String returns the ID of the slot: NAME/DUE, with now- before the due time of a manual run, ~REPEAT if Repeat is set,
// and #ATTEMPT after the first attempt.
func (s Slot) String() string {
	id := s.Name + "/"
	if s.Manual {
		id += manualPrefix
	}

	id += strconv.FormatInt(s.Due, 10)
	if s.Repeat > 0 {
		id += "~" + strconv.FormatInt(s.Repeat, 10)
	}
	if s.Attempt > 0 {
		id += "#" + strconv.Itoa(s.Attempt)
	}

	return id
}

// DueTime returns the due time.
func (s Slot) DueTime() time.Time { return time.UnixMilli(s.Due) }

// ParseSlot reads the ID of a slot. It reports false if id is none.
func ParseSlot(id string) (Slot, bool) {
	name, rest, ok := strings.Cut(id, "/")
	if !ok {
		return Slot{}, false
	}

	s := Slot{Name: name}
	rest, attempt, attempted := strings.Cut(rest, "#")
	rest, s.Manual = strings.CutPrefix(rest, manualPrefix)
	due, repeat, repeated := strings.Cut(rest, "~")

	var err error
	if s.Due, err = strconv.ParseInt(due, 10, 64); err != nil {
		return Slot{}, false
	}
	if repeated {
		if s.Repeat, err = strconv.ParseInt(repeat, 10, 64); err != nil || s.Repeat <= 0 {
			return Slot{}, false
		}
	}
	if attempted {
		if s.Attempt, err = strconv.Atoi(attempt); err != nil || s.Attempt < 0 {
			return Slot{}, false
		}
	}

	return s, true
}
