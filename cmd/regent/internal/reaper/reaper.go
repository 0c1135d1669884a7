// Package reaper is the companion process that frees the seats of a dead leader at once, whatever the lease.
//
// The process that leads starts it with [Start], as the same binary with the command [Command], in a session of its own. It holds a pidfd of
// the one that started it, and is told every renewed deadline over a pipe. What it does:
//
//   - The kernel proves that process gone: it kills what that process had started and told of ([Reaper.Group]), waits until the kernel shows
//     all of that gone too, and vacates every register that kept a seat alive, while it still shows the dead incarnation.
//   - A deadline passes, and the stop timeout after it, on a clock that counts while the machine is suspended, and that process has neither
//     renewed nor stopped its duties: it is frozen or stuck, and is killed, so that the proof comes. That is before anybody else can lead.
//   - That process is only silent, or the pipe is closed: nothing. It keeps watching.
//
// What is not covered, so that the lease has to run out: both die at once (the host, a container, a whole cgroup); the leader is pid 1 of a
// container, with which the kernel ends all others; the leader dies between the store's answer to its claim and the first word about it;
// the store cannot be reached from here. It needs Linux 5.3 for the pidfd. Elsewhere Start says [ErrUnsupported], and everything
// works by the lease alone. A nil *Reaper is one that does nothing, so that it can be turned off.
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
)

// Command is the hidden command that runs [Main].
const Command = "reaper-process"

// ErrUnsupported says that this system cannot prove a process dead.
var ErrUnsupported = fmt.Errorf("no reaper on this system: it needs Linux 5.3 and pidfd: %w", errors.ErrUnsupported)

// Options is how a reaper is started.
type Options struct {
	Store       string        // the store's address. It goes over the pipe, so that nobody reads a secret in the list of processes
	StopTimeout time.Duration // G of the member's configuration

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
}

// line is a lifeline, with a time instead of a duration: both processes read the same clock.
type line struct {
	Register    string        `json:"register"`
	ID          string        `json:"id"`
	Incarnation string        `json:"incarnation"`
	KillAt      time.Duration `json:"killAt"`            // on CLOCK_BOOTTIME
	Stopped     bool          `json:"stopped,omitempty"` // no reason to kill any more, but the register may still show it
	Over        bool          `json:"over,omitempty"`
}

func (l line) holder() regent.Identity { return regent.Identity{ID: l.ID, Incarnation: l.Incarnation} }

// newLine says when a process that falls silent must be dead: with its deadline and the stop timeout behind it. The member ends its terms a
// hundredth before the deadline; half of that is given to the killing, since with the deadline and the stop timeout the time is used up in
// which nobody else can lead.
func newLine(l regent.Lifeline, now, stop time.Duration) line {
	return line{Register: l.Register, ID: l.Holder.ID, Incarnation: l.Holder.Incarnation, Stopped: l.Stopped, Over: l.Over,
		KillAt: now + l.Left - l.Left/200 + stop}
}

// board is all that was told and still holds, the newest of each: what a reaper knows, and what its successor must be told.
type board struct {
	lines  map[string]line        // by register
	groups map[string]brood.Brood // by mark
}

func newBoard() board { return board{map[string]line{}, map[string]brood.Brood{}} }

// take applies a message. An incarnation replaces the one before it on the same register, and only itself ends.
func (b board) take(m message) {
	switch {
	case m.Line != nil && !m.Line.Over:
		l := *m.Line
		if before := b.lines[l.Register]; l.Stopped && before.holder() == l.holder() {
			l.KillAt = max(l.KillAt, before.KillAt) // until then it makes sense to free it
		}
		b.lines[l.Register] = l
	case m.Line != nil:
		if b.lines[m.Line.Register].holder() == m.Line.holder() {
			delete(b.lines, m.Line.Register)
		}
	case m.Group != nil:
		b.groups[m.Group.Mark] = *m.Group
	case m.Gone != nil:
		delete(b.groups, m.Gone.Mark)
	}
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
