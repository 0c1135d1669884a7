package reaper

import (
	"encoding/json"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/reaper/proctree"
)

// message is a line of JSON on the pipe. One of its fields is set.
type message struct {
	Hello   *hello         `json:"hello,omitempty"`
	Line    *line          `json:"line,omitempty"`
	Track   *proctree.Tree `json:"track,omitempty"`
	Untrack *proctree.Tree `json:"untrack,omitempty"`
	Bye     bool           `json:"bye,omitempty"` // the last message: end, unless something depends on the companion
}

// hello is the first message. The companion inherits the pidfd of the process to watch as file 3, so it cannot mistake
// another process for it.
type hello struct {
	Store string `json:"store"`
	PID   int    `json:"pid"` // for the log

	Adopter int `json:"adopter,omitempty"`
}

// line is a lifeline with a time instead of a duration: both processes read the same clock.
type line struct {
	Register    string        `json:"register"`
	ID          string        `json:"id"`
	Incarnation string        `json:"incarnation"`
	KillAt      time.Duration `json:"killAt"`            // on CLOCK_BOOTTIME
	Holds       bool          `json:"holds,omitempty"`   // a term depends on it
	Stopped     bool          `json:"stopped,omitempty"` // its terms have ended and their duties have stopped
	Over        bool          `json:"over,omitempty"`    // the register has been released

	killed bool // the companion has killed the process
}

// newLine computes when a silent process must be dead: when its deadline and the stop timeout have passed. From then on
// another member may lead. A member ends its terms a hundredth of the time before the deadline; half of that is left
// for the kill.
func newLine(l regent.Lifeline, now, stop time.Duration) line {
	return line{
		Register:    l.Register,
		ID:          l.Holder.ID,
		Incarnation: l.Holder.Incarnation,
		KillAt:      now + l.Left - l.Left/200 + stop,
		Holds:       l.Holds,
		Stopped:     l.Stopped,
		Over:        l.Over,
	}
}

func (l line) holder() driver.Identity { return driver.Identity{ID: l.ID, Incarnation: l.Incarnation} }

// reason returns why the process ended, as its register shows it.
func (l line) reason() regent.Reason {
	if l.killed {
		return regent.ReasonKilled
	}
	return regent.ReasonDied
}

// deadly reports whether a process that is silent past KillAt must be killed: a term depends on the line, and its
// duties have not stopped.
func (l line) deadly() bool { return l.Holds && !l.Stopped && !l.Over }

// encode appends the message as a line.
func (m message) encode(to []byte) []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // it has no field that JSON cannot represent
	}
	return append(append(to, b...), '\n')
}
