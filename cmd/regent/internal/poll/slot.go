package poll

import (
	"strconv"
	"strings"
	"time"
)

// slot is one run of a poll: the poll's name and the time at which it is due, which any leader computes alike.
type slot struct {
	entry   *entry
	due     int64    // Unix milliseconds
	manual  bool     // asked for by somebody, not by the schedule
	again   int64    // if it may have been run before a clock went back: see markOf
	attempt int      // how often it may have been begun before: a worker runs each attempt once
	retries int      // of these, how often the check itself has failed
	tried   []string // workers whose checks have failed: others should look
	refused []string // workers that have not taken it
	lacking []string // workers that do not make such checks
	worker  string   // that has it, if it was sent
	sent    time.Time
	settled bool
	done    chan Run // receives once, if somebody waits for it
}

// id is what the slot is called on its way: NAME/DUE, ~MARK if it may have been run before a clock went back, and #ATTEMPT
// after the first.
func (s *slot) id() string {
	id := s.entry.poll.Name + "/"
	if s.manual {
		id += "now-"
	}
	id += strconv.FormatInt(s.due, 10)
	if s.again > 0 {
		id += "~" + strconv.FormatInt(s.again, 10)
	}
	if s.attempt > 0 {
		id += "#" + strconv.Itoa(s.attempt)
	}
	return id
}

func (s *slot) dueTime() time.Time { return time.UnixMilli(s.due) }

// identity is a slot's id, taken apart.
type identity struct {
	name    string
	due     int64
	manual  bool
	again   int64
	attempt int
}

func parseID(id string) (identity, bool) {
	var i identity
	name, rest, ok := strings.Cut(id, "/")
	if !ok {
		return i, false
	}
	i.name = name
	rest, attempt, again := strings.Cut(rest, "#")
	rest, i.manual = strings.CutPrefix(rest, "now-")
	rest, mark, marked := strings.Cut(rest, "~")
	var err error
	if i.due, err = strconv.ParseInt(rest, 10, 64); err != nil {
		return i, false
	}
	if marked {
		if i.again, err = strconv.ParseInt(mark, 10, 64); err != nil || i.again <= 0 {
			return i, false
		}
	}
	if again {
		i.attempt, err = strconv.Atoi(attempt)
	}
	return i, err == nil && i.attempt >= 0
}

// Run is what became of a slot.
type Run struct {
	Slot     string            `json:"slot"`
	Due      time.Time         `json:"due"`
	At       time.Time         `json:"at,omitzero"` // when it began, by the worker's clock
	Worker   string            `json:"worker,omitempty"`
	Epoch    uint64            `json:"epoch,omitempty"`
	Attempts int               `json:"attempts"`
	Outcome  string            `json:"outcome"` // ok, failed, error or unknown
	Message  string            `json:"message,omitempty"`
	Latency  time.Duration     `json:"latency"` // nanoseconds
	Detail   map[string]string `json:"detail,omitempty"`
}

// Outcomes of a slot.
const (
	outcomeOK      = "ok"
	outcomeFailed  = "failed"  // the target did not pass the check
	outcomeError   = "error"   // the check could not be made
	outcomeMissed  = "missed"  // it was too late for it
	outcomeUnknown = "unknown" // its worker cannot be reached, and it must not run twice
)
