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

	"github.com/regentd/regent/cmd/regent/internal/runner/brood"
	"github.com/regentd/regent/driver"
	"golang.org/x/sys/unix"
)

// inherited is the number of the file that is a pidfd of the process to watch.
const inherited = 3

// A reaper listens once more before it kills, for at least listenMin and at most listenMax: see
// listenFor.
const (
	listenMin = 5 * time.Millisecond
	listenMax = time.Second
)

// Main is the companion process: it watches the process that started it until that is gone, and then frees what it held. in is the pipe; open
// opens the store, as early as something hangs on it. No signal and no context ends it before its work is done.
func Main(ctx context.Context, in *os.File, open func(ctx context.Context, address string) (driver.Store, error), log *slog.Logger) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGTSTP)
	ctx = context.WithoutCancel(ctx)
	if err := unix.PidfdSendSignal(inherited, 0, nil, 0); err != nil && err != unix.ESRCH {
		return errors.New("this command is started by regent itself, not by hand")
	}
	unix.CloseOnExec(inherited)
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	var m message
	if err != nil || json.Unmarshal(first, &m) != nil || m.Hello == nil {
		return fmt.Errorf("no word from the process to watch: %w", errors.Join(err, os.ErrInvalid))
	}
	rest, _ := lines.Peek(lines.Buffered())
	log = log.With("pid", os.Getpid(), "watched", m.Hello.PID)
	w := &watch{in: int(in.Fd()), board: newBoard(), part: bytes.Clone(rest), log: log,
		link: &link{ctx: ctx, address: m.Hello.Store, dial: open, log: log, ready: make(chan struct{})}}
	if m.Hello.Adopter != 0 {
		w.adopted = &brood.Brood{Adopter: m.Hello.Adopter}
	}
	if err := w.open(); err != nil {
		return err
	}
	gone, err := w.run()
	if err != nil || !gone {
		return err
	}
	return w.bury(ctx)
}

// watch is what the companion process does until the other one is gone.
type watch struct {
	board
	in    int
	timer int           // of CLOCK_BOOTTIME: a process that overslept its deadline together with the machine is noticed on waking up
	armed time.Duration // when the timer goes off; 0 for never
	part  []byte        // of a line
	eof   bool          // nothing more will come, though the process may live on
	full  bool          // the pipe was full when it was last read: the process may have been waiting to write
	bye   bool
	shot  bool // it was killed

	adopted *brood.Brood // what its adopter has when it is gone; nil if it has none
	link    *link
	log     *slog.Logger
}

func (w *watch) open() error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("create timer: %w", err)
	}
	w.timer = fd
	w.apply(nil)
	return unix.SetNonblock(w.in, true)
}

// run returns when the kernel says that the process is gone; or when that said itself that nothing hangs on it.
func (w *watch) run() (gone bool, err error) {
	for !w.bye || !w.idle() {
		in := int32(w.in)
		if w.eof {
			in = -1
		}
		fds := []unix.PollFd{{Fd: inherited, Events: unix.POLLIN}, {Fd: in, Events: unix.POLLIN}, {Fd: int32(w.timer), Events: unix.POLLIN}}
		if err := poll(fds, -1); err != nil {
			return false, err
		}
		if fds[1].Revents != 0 {
			w.listen()
		}
		if fds[0].Revents != 0 {
			w.listen() // it has written its last by now
			return true, nil
		}
		if fds[2].Revents != 0 {
			w.ring()
		}
	}
	return false, nil
}

// fullPipe is the least that a full pipe holds. It takes 64 KiB, but not all of each page is used
// if messages are short.
const fullPipe = 32 << 10

// listen takes in all that is in the pipe.
func (w *watch) listen() {
	var buf [16 << 10]byte
	total := 0
	defer func() { w.full = total >= fullPipe }()
	for !w.eof {
		n, err := unix.Read(w.in, buf[:])
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return
		case err != nil || n == 0:
			w.eof = true
			w.log.Debug("pipe is closed: watching on")
		default:
			total += n
			w.apply(buf[:n])
		}
	}
}

// apply takes in whole lines, and keeps the beginning of the next.
func (w *watch) apply(b []byte) {
	w.part = append(w.part, b...)
	for {
		text, rest, whole := bytes.Cut(w.part, []byte{'\n'})
		if !whole {
			return
		}
		var m message
		if err := json.Unmarshal(text, &m); err != nil {
			w.log.Error("cannot read what I am told", "error", err)
		}
		w.take(m)
		w.bye = w.bye || m.Bye
		if m.Line != nil && !m.Line.Over {
			if m.Line.Holds { // else there is no hurry: it connects when its process has died
				w.link.start()
			}
			if m.Line.deadly() && (w.armed == 0 || m.Line.KillAt < w.armed) {
				w.arm(m.Line.KillAt)
			}
		}
		w.part = append(w.part[:0], rest...)
	}
}

// ring is called when the timer has gone off: at the earliest end that there was when it was set.
// Most of these have been put off since.
func (w *watch) ring() {
	w.armed = 0
	if !w.shot {
		if l := w.silent(); l != nil {
			w.shoot(*l)
		}
	}

	next := time.Duration(0)
	for _, l := range w.lines {
		if l.deadly() && (next == 0 || l.KillAt < next) {
			next = l.KillAt
		}
	}
	if w.shot {
		next = 0
	}
	w.arm(next)
}

// silent returns a line that is overdue, and stays so while the reaper listens once more; nil if
// there is none.
func (w *watch) silent() *line {
	l := w.overdue()
	if l == nil {
		return nil
	}
	for end := boottime() + listenFor(boottime()-l.KillAt, w.full); l != nil; l = w.overdue() {
		left := end - boottime()
		if left <= 0 || w.eof {
			return l
		}
		fds := []unix.PollFd{{Fd: int32(w.in), Events: unix.POLLIN}, {Fd: inherited, Events: unix.POLLIN}}
		if err := poll(fds, left); err != nil {
			w.log.Error("cannot listen once more", "error", err)
			return l
		}
		if fds[0].Revents != 0 {
			w.listen()
		}
		if fds[1].Revents != 0 {
			return nil // it is gone
		}
	}
	return nil
}

// listenFor returns how long the reaper listens before it kills a process that is so late. If the
// pipe was full, the process may have been waiting to write, and has to be scheduled before it goes
// on. And the timer goes off in time, so a reaper that comes late was stopped or starved itself:
// the other process may be starved too, and gets the time that this one has lost.
func listenFor(late time.Duration, full bool) time.Duration {
	if full {
		return listenMax
	}
	return min(max(late, listenMin), listenMax)
}

// overdue returns the earliest line on which the process should have said something, or died; nil
// if there is none.
func (w *watch) overdue() *line {
	var found *line
	now := boottime()
	for _, l := range w.lines {
		if l.deadly() && l.KillAt <= now && (found == nil || l.KillAt < found.KillAt) {
			found = &l
		}
	}
	return found
}

// shoot kills the process, and all that it has started. That it was killed proves nothing: the pidfd will.
func (w *watch) shoot(l line) {
	w.log.Error("process is silent past its deadline: killing it", "register", l.Register, "late", boottime()-l.KillAt)
	if err := unix.PidfdSendSignal(inherited, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		w.log.Error("cannot kill it", "error", err)
	}
	w.shot = true
	for _, b := range w.groups {
		_ = b.Signal(syscall.SIGKILL) // thoroughly once the process is gone, so that it starts nothing new
	}
}

// arm sets the timer; a time that has passed goes off at once, 0 never does.
func (w *watch) arm(at time.Duration) {
	w.armed = at
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	if err := unix.TimerfdSettime(w.timer, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		w.log.Error("cannot set the timer", "error", err)
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
