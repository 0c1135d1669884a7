package reaper

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/regentd/regent/reaper/proctree"
	"golang.org/x/sys/unix"
)

// inherited is the file descriptor that is a pidfd of the process to watch.
const inherited = 3

// The companion reads the pipe once more before it kills, for at least listenMin and at most listenMax: see listenFor.
const (
	listenMin = 5 * time.Millisecond
	listenMax = time.Second
)

// run is the companion process. It watches the process that started it until that has ended, and then releases what the
// process held. in is the pipe. No signal and no context ends the companion before its work is done.
func run(ctx context.Context, in *os.File, open Opener, log *slog.Logger) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGPIPE, syscall.SIGTSTP)
	ctx = context.WithoutCancel(ctx)

	if err := unix.PidfdSendSignal(inherited, 0, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("the argument %s is for the companion process, which is not started by hand", Command)
	}

	unix.CloseOnExec(inherited)

	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	var m message
	if err != nil || json.Unmarshal(first, &m) != nil || m.Hello == nil {
		return fmt.Errorf("no message from the process to watch: %w", errors.Join(err, os.ErrInvalid))
	}

	rest, _ := lines.Peek(lines.Buffered())

	log = log.With("pid", os.Getpid(), "watched", m.Hello.PID)
	c := &companion{
		state: newState(),
		in:    int(in.Fd()),
		part:  bytes.Clone(rest),
		link:  newLink(ctx, open, m.Hello.Store, log),
		log:   log,
	}

	if m.Hello.Adopter != 0 {
		c.adopted = &proctree.Tree{Adopter: m.Hello.Adopter}
	}

	if err := c.open(); err != nil {
		return err
	}

	gone, err := c.watch()
	if err != nil || !gone {
		return err
	}

	return c.release(ctx)
}

// companion is the state of the companion process while the other one lives.
type companion struct {
	state
	in     int
	timer  int           // of CLOCK_BOOTTIME, so it also expires if the deadline passes while the machine is suspended
	armed  time.Duration // when the timer expires; 0 for never
	part   []byte        // the beginning of an incomplete line
	eof    bool          // the pipe is closed, though the process may live on
	full   bool          // the pipe was full when it was last read: the process may have been waiting to write
	bye    bool
	killed bool // it has killed the process

	adopted *proctree.Tree // what the adopter has adopted; nil if there is no adopter
	link    *link
	log     *slog.Logger
}

func (c *companion) open() error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("create timer: %w", err)
	}
	c.timer = fd
	c.apply(nil)
	return unix.SetNonblock(c.in, true)
}

// watch returns true when the kernel reports that the process has ended, and false when the process has reported that
// nothing depends on the companion.
func (c *companion) watch() (gone bool, err error) {
	for !c.bye || !c.idle() {
		in := int32(c.in)
		if c.eof {
			in = -1
		}

		fds := []unix.PollFd{
			{Fd: inherited, Events: unix.POLLIN},
			{Fd: in, Events: unix.POLLIN},
			{Fd: int32(c.timer), Events: unix.POLLIN},
		}

		if err := poll(fds, -1); err != nil {
			return false, err
		}

		if fds[1].Revents != 0 {
			c.listen()
		}

		if fds[0].Revents != 0 {
			c.listen() // everything that the process has written is in the pipe now
			return true, nil
		}

		if fds[2].Revents != 0 {
			c.expire()
		}
	}

	return false, nil
}

// fullPipe is the least that a full pipe holds. A pipe takes 64 KiB, but does not use all of each page if messages are
// short.
const fullPipe = 32 << 10

// listen reads all that is in the pipe.
func (c *companion) listen() {
	var buf [16 << 10]byte
	total := 0
	defer func() { c.full = total >= fullPipe }()

	for !c.eof {
		n, err := unix.Read(c.in, buf[:])
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return
		case err != nil || n == 0:
			c.eof = true
			c.log.Debug("pipe is closed: watching on")
		default:
			total += n
			c.apply(buf[:n])
		}
	}
}

// apply processes whole lines, and keeps the beginning of the next.
func (c *companion) apply(b []byte) {
	c.part = append(c.part, b...)
	for {
		text, rest, whole := bytes.Cut(c.part, []byte{'\n'})
		if !whole {
			return
		}

		var m message
		if err := json.Unmarshal(text, &m); err != nil {
			c.log.Error("cannot decode a message of the process", "error", err)
		}

		c.take(m)
		c.bye = c.bye || m.Bye
		if l := m.Line; l != nil && !l.Over {
			if l.Holds { // otherwise the store is opened when the process has died
				c.link.prepare(l.Register)
			}
			if l.deadly() && (c.armed == 0 || l.KillAt < c.armed) {
				c.arm(l.KillAt)
			}
		}

		c.part = append(c.part[:0], rest...)
	}
}

// expire runs when the timer has expired: at the earliest KillAt at the time when it was set. Most of these have been
// moved since.
func (c *companion) expire() {
	c.armed = 0
	if !c.killed {
		if l := c.silent(); l != nil {
			c.kill(*l)
		}
	}

	next := time.Duration(0)
	for _, l := range c.lines {
		if l.deadly() && (next == 0 || l.KillAt < next) {
			next = l.KillAt
		}
	}

	if c.killed {
		next = 0
	}

	c.arm(next)
}

// silent returns a line that is overdue, and still is after the companion has read the pipe once more; nil if there is
// none.
func (c *companion) silent() *line {
	l := c.overdue()
	if l == nil {
		return nil
	}

	for end := boottime() + listenFor(boottime()-l.KillAt, c.full); l != nil; l = c.overdue() {
		left := end - boottime()
		if left <= 0 || c.eof {
			return l
		}

		fds := []unix.PollFd{
			{Fd: int32(c.in), Events: unix.POLLIN},
			{Fd: inherited, Events: unix.POLLIN},
		}

		if err := poll(fds, left); err != nil {
			c.log.Error("cannot read the pipe once more", "error", err)
			return l
		}

		if fds[0].Revents != 0 {
			c.listen()
		}

		if fds[1].Revents != 0 {
			return nil // the process has ended
		}
	}

	return nil
}

// listenFor returns how long the companion reads the pipe before it kills a process that is late by that much. If the
// pipe was full, the process may have been waiting to write, and has to be scheduled before it goes on. If the
// companion itself is late, it was stopped or starved: the process may be starved too, and gets the same time.
func listenFor(late time.Duration, full bool) time.Duration {
	if full {
		return listenMax
	}
	return min(max(late, listenMin), listenMax)
}

// overdue returns the earliest line whose KillAt has passed without a report; nil if there is none.
func (c *companion) overdue() *line {
	var found *line
	now := boottime()
	for _, l := range c.lines {
		if l.deadly() && l.KillAt <= now && (found == nil || l.KillAt < found.KillAt) {
			found = &l
		}
	}
	return found
}

// kill kills the process, and everything that it has started. The pidfd then proves that the process has ended.
func (c *companion) kill(l line) {
	c.log.Error("process is silent past its deadline: killing it",
		"register", l.Register, "late", boottime()-l.KillAt)
	if err := unix.PidfdSendSignal(inherited, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		c.log.Error("cannot kill the process", "error", err)
	}

	c.killed = true
	for _, t := range c.trees {
		// Only the groups: the rest follows once the process has ended and starts nothing new.
		_ = t.Signal(syscall.SIGKILL)
	}
}

// arm sets the timer. A time that has passed expires at once, 0 never does.
func (c *companion) arm(at time.Duration) {
	c.armed = at
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	if err := unix.TimerfdSettime(c.timer, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		c.log.Error("cannot set the timer", "error", err)
	}
}

// poll waits for any of the files, for ever if wait is negative.
func poll(fds []unix.PollFd, wait time.Duration) error {
	ms := -1
	if wait >= 0 {
		ms = int((wait + time.Millisecond - 1).Milliseconds())
	}

	for {
		if _, err := unix.Poll(fds, ms); err != unix.EINTR {
			return err
		}
	}
}
