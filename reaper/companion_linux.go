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

// inherited is the number of the file that is a pidfd of the process to watch.
const inherited = 3

// The companion listens once more before it kills, for at least listenMin and at most listenMax: see listenFor.
const (
	listenMin = 5 * time.Millisecond
	listenMax = time.Second
)

// run is the companion process. It watches the process that started it until that is gone, and then releases what
// that held. in is the pipe. No signal and no context ends it before its work is done.
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

// companion is the companion process while the other one lives.
type companion struct {
	state
	in     int
	timer  int           // of CLOCK_BOOTTIME, so a process that slept past its deadline with the machine is noticed
	armed  time.Duration // when the timer expires; 0 for never
	part   []byte        // of a line that has not arrived as a whole
	eof    bool          // nothing more will come, though the process may live on
	full   bool          // the pipe was full when it was last read: the process may have been waiting to write
	bye    bool
	killed bool // it has killed the process

	adopted *proctree.Tree // what the adopter has when the process is gone; nil if there is no adopter
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

// watch returns true when the kernel says that the process is gone, and false when the process has said that
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
			c.listen() // all that it has written is in the pipe by now
			return true, nil
		}
		if fds[2].Revents != 0 {
			c.expire()
		}
	}
	return false, nil
}

// fullPipe is the least that a full pipe holds. A pipe takes 64 KiB, but does not use all of each page if messages
// are short.
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

// apply takes in whole lines, and keeps the beginning of the next.
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
			if l.Holds { // otherwise there is no hurry: the store is opened when the process has died
				c.link.start()
			}
			if l.deadly() && (c.armed == 0 || l.KillAt < c.armed) {
				c.arm(l.KillAt)
			}
		}
		c.part = append(c.part[:0], rest...)
	}
}

// expire is called when the timer has expired: at the earliest KillAt that there was when it was set. Most of these
// have been moved since.
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

// silent returns a line that is overdue, and stays so while the companion listens once more; nil if there is none.
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
			return nil // it is gone
		}
	}
	return nil
}

// listenFor returns how long the companion listens before it kills a process that is so late. If the pipe was full,
// the process may have been waiting to write, and has to be scheduled before it goes on. The timer expires in time,
// so a companion that is late was stopped or starved itself: the process may be starved too, and gets the time that
// the companion has lost.
func listenFor(late time.Duration, full bool) time.Duration {
	if full {
		return listenMax
	}
	return min(max(late, listenMin), listenMax)
}

// overdue returns the earliest line on which the process should have reported something, or died; nil if there is
// none.
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

// kill kills the process, and all that it has started. The kill proves nothing: the pidfd will.
func (c *companion) kill(l line) {
	c.log.Error("process is silent past its deadline: killing it",
		"register", l.Register, "late", boottime()-l.KillAt)
	if err := unix.PidfdSendSignal(inherited, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		c.log.Error("cannot kill the process", "error", err)
	}
	c.killed = true
	for _, t := range c.trees {
		_ = t.Signal(syscall.SIGKILL) // all of it once the process is gone, which then starts nothing new
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
