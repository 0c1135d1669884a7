//go:build unix

package runner

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/regentd/regent/reaper/proctree"
	"golang.org/x/sys/unix"
)

// terminal is one whose foreground was given to a program.
type terminal struct {
	fd       int
	group    int // which had it before
	children chan os.Signal
	done     sync.WaitGroup
}

// takeTerminal gives the foreground to the program, if stdin is a terminal and this process has it; else it returns nil. The program
// runs already, and may have been stopped for touching the terminal too early: it is told to go on.
//
// Ctrl-Z stops it no longer than a moment: a program that leads and does nothing is of no use to anybody, and the shell could not be told,
// since this process must not stop: it holds the lease. refused is called then.
func takeTerminal(stdin *os.File, b proctree.Tree, refused func()) *terminal {
	if stdin == nil {
		return nil
	}
	t := &terminal{fd: int(stdin.Fd()), children: make(chan os.Signal, 1)}
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil || group != unix.Getpgrp() {
		return nil
	}
	t.group = group

	// Before the program is told to go on: it may be stopped again right after that, and the kernel says so once.
	signal.Notify(t.children, syscall.SIGCHLD)
	if unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, b.Leader) != nil {
		signal.Stop(t.children)
		return nil // it has exited
	}
	_ = b.Signal(syscall.SIGCONT)

	t.done.Go(func() {
		for range t.children {
			if stopped(b.Leader) {
				_ = b.Signal(syscall.SIGCONT)
				refused()
			}
		}
	})
	return t
}

// giveBack takes the foreground back. Who is in the background is stopped for that, unless it ignores the signal.
func (t *terminal) giveBack() {
	if t == nil {
		return
	}
	signal.Stop(t.children)
	close(t.children)
	t.done.Wait()
	if !signal.Ignored(syscall.SIGTTOU) {
		signal.Ignore(syscall.SIGTTOU)
		defer signal.Reset(syscall.SIGTTOU)
	}
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group)
}
