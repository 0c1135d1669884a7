// Package reaper is the companion process that frees the seats of a dead leader at once, whatever
// the lease.
//
// The process that leads starts it with [Start], as the same binary with the command [Command], in
// a session of its own. The reaper holds a pidfd of the process that started it, and is sent every
// renewed deadline over a pipe. What it does:
//
//   - The kernel proves that the process is gone: the reaper kills what the process had started
//     ([Reaper.Group]), waits until the kernel shows all of that gone too, and vacates every
//     heartbeat register of the process that still shows the dead incarnation. That goes for a
//     standby too: its member register is vacated.
//   - A deadline passes, and the stop timeout after it, on a clock that counts while the machine is
//     suspended; a term depends on that deadline, and the process has neither renewed nor said that
//     its duties have stopped. Then it is frozen or stuck. The reaper kills it, so that the proof
//     comes. That is before anybody else can lead.
//   - The process holds nothing, or has said that its terms have ended: the reaper keeps watching. It
//     never kills such a process, whatever the store does. A closed pipe proves nothing either.
//
// A process is killed wrongly only if its message is late: its duties have stopped, and the message
// which says so is not in the pipe when the stop timeout is over. The message has what the duties
// leave of the stop timeout, and half a percent of the lease. A reaper that is late itself waits
// longer: see listenFor. A starved process and a frozen one cannot be told apart.
//
// What is not covered, so that the lease has to expire: both die at once (the host, a container, a
// whole cgroup; package container keeps a container until the reaper is done); the leader dies, or freezes, before its first message about a claim is in the pipe; the store cannot
// be reached from here. The reaper needs Linux 5.3 for the pidfd. Elsewhere Start returns
// [ErrUnsupported], and everything works by the lease alone. A nil *Reaper does nothing, so that it
// can be turned off.
package reaper

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/runner/brood"
	"github.com/regentd/regent/driver"
)

// Command is the hidden command that runs [Main].
const Command = "reaper-process"

// ErrUnsupported says that this system cannot prove a process dead.
var ErrUnsupported = fmt.Errorf("no reaper on this system: it needs Linux 5.3 and pidfd: %w", errors.ErrUnsupported)

// Options is how a reaper is started.
type Options struct {
	Store       string        // the store's address. It goes over the pipe, so that nobody reads a secret in the list of processes
	StopTimeout time.Duration // G of the member's configuration

	// Adopter is the process that adopts the orphans of this one, and outlives it; 0 if there is none. All that it has adopted is
	// killed once this process is gone.
	Adopter int

	Exe    string       // the program to run; this one if empty
	Args   []string     // its arguments; just Command if nil
	Stderr *os.File     // where the process logs; this one's if nil
	Log    *slog.Logger // what becomes of the process; slog.Default if nil
}

// message is a line on the pipe: exactly one of its fields is set.
type message struct {
	Hello *hello       `json:"hello,omitempty"`
	Line  *line        `json:"line,omitempty"`
	Group *brood.Brood `json:"group,omitempty"`
	Gone  *brood.Brood `json:"gone,omitempty"`
	Bye   bool         `json:"bye,omitempty"` // nothing more will come: leave, if nothing hangs on you
}

// hello is the first line. The pidfd of the process to watch is inherited, as file 3, so that no pid can be mistaken for another.
type hello struct {
	Store string `json:"store"`
	PID   int    `json:"pid"` // for the log

	Adopter int `json:"adopter,omitempty"`
}

// line is a lifeline, with a time instead of a duration: both processes read the same clock.
type line struct {
	Register    string        `json:"register"`
	ID          string        `json:"id"`
	Incarnation string        `json:"incarnation"`
	KillAt      time.Duration `json:"killAt"`            // on CLOCK_BOOTTIME
	Holds       bool          `json:"holds,omitempty"`   // a term depends on it
	Stopped     bool          `json:"stopped,omitempty"` // its terms have ended and their duties have stopped
	Over        bool          `json:"over,omitempty"`    // the register has been released
}

func (l line) holder() driver.Identity { return driver.Identity{ID: l.ID, Incarnation: l.Incarnation} }

// deadly reports whether a process that is silent past KillAt is to be killed: it holds, and has
// not stopped.
func (l line) deadly() bool { return l.Holds && !l.Stopped && !l.Over }

// newLine says when a process that falls silent must be dead: with its deadline and the stop
// timeout behind it. The member ends its terms a hundredth before the deadline; half of that is
// given to the killing, since with the deadline and the stop timeout the time is used up in which
// nobody else can lead.
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

// board is what a reaper knows: the newest line of each register, and the commands that run.
type board struct {
	lines  map[string]line            // by register
	groups map[string]brood.Brood     // by mark
	ended  map[string]driver.Identity // by register: the last incarnation that was released or replaced
}

func newBoard() board {
	return board{
		lines:  map[string]line{},
		groups: map[string]brood.Brood{},
		ended:  map[string]driver.Identity{},
	}
}

// note applies what the member says, on the side of the process that leads. Incarnations may
// overlap: a release of the last one may still be under way when the next one has claimed. So a
// word about an incarnation that was replaced, and one that revives an incarnation which has ended,
// come late and are dropped.
func (b board) note(l line) {
	before, known := b.lines[l.Register]
	same := known && before.holder() == l.holder()

	switch {
	case l.holder() == b.ended[l.Register]:
	case same && l.Over:
		delete(b.lines, l.Register)
		b.ended[l.Register] = l.holder()
	case same && l.Stopped:
		l.KillAt = max(l.KillAt, before.KillAt) // until then it makes sense to free it
		b.lines[l.Register] = l
	case same && before.Stopped:
	case same:
		b.lines[l.Register] = l
	case l.Over, known && l.Stopped:
	default:
		if known {
			b.ended[l.Register] = before.holder()
		}
		b.lines[l.Register] = l
	}
}

// take applies a message, in the reaper. It carries the whole state of its subject, so that only
// the newest one counts.
func (b board) take(m message) {
	switch {
	case m.Line != nil && m.Line.Over:
		delete(b.lines, m.Line.Register)
	case m.Line != nil:
		b.lines[m.Line.Register] = *m.Line
	case m.Group != nil:
		b.groups[m.Group.Mark] = *m.Group
	case m.Gone != nil:
		delete(b.groups, m.Gone.Mark)
	}
}

// line returns the message that carries the state of a register.
func (b board) line(register string) message {
	l, known := b.lines[register]
	if !known {
		l = line{Register: register, Over: true}
	}
	return message{Line: &l}
}

// group returns the message that carries the state of a command.
func (b board) group(mark string) message {
	if g, known := b.groups[mark]; known {
		return message{Group: &g}
	}
	return message{Gone: &brood.Brood{Mark: mark}}
}

// idle reports whether nothing hangs on the process.
func (b board) idle() bool { return len(b.lines) == 0 && len(b.groups) == 0 }

// encode appends a message as a line.
func (m message) encode(to []byte) []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // it holds nothing that JSON cannot hold
	}
	return append(append(to, b...), '\n')
}
