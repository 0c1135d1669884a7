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

// terminal is a terminal whose foreground was given to a program.
type terminal struct {
	fd       int
	group    int // the process group that had the foreground before
	children chan os.Signal
	done     sync.WaitGroup
}

// takeTerminal gives the foreground to the program, if stdin is a terminal and this process is in its foreground; else
// it returns nil. The program runs already. The kernel may have suspended it for using the terminal too early: so it
// gets CONT.
//
// After Ctrl-Z the program gets CONT at once, and refused is called. A program that leads must not be suspended, and
// this process could not inform the shell: it must not be suspended itself, because it holds the lease.
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

	// This comes before CONT: the program may be suspended again right after that, and the kernel reports it once.
	signal.Notify(t.children, syscall.SIGCHLD)

	if unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, b.Leader) != nil {
		signal.Stop(t.children)
		return nil // the program has exited
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

// restore takes the foreground back. The kernel would suspend a process in the background for that, unless it ignores
// the signal.
func (t *terminal) restore() {
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
