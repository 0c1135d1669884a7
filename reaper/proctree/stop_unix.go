//go:build unix

package proctree

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"
)

// Started returns the tree of a command that was started with this pid, in a process group of its own. Call it
// before the command is waited for: until then nobody else can have its pid.
func (t Tree) Started(pid int) Tree {
	t.Leader = pid
	t.Start = startTime(pid)
	return t
}

// The time between two scans for living processes. It is short at first, since most processes end at once.
const (
	scanFirst = 500 * time.Microsecond
	scanMax   = 20 * time.Millisecond
)

// Stop sends TERM to all processes, and KILL to those that still live when the timeout has passed. It returns
// once none lives any more, however long that takes. It calls forced before it sends KILL.
func (t Tree) Stop(timeout time.Duration, forced func()) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()

	if t.until(ctx, t.terminator()) != nil {
		forced()
		_ = t.Kill(context.Background())
	}
}

// Kill sends KILL to all processes, and returns once the kernel shows none alive, or with an error when ctx
// ends before.
func (t Tree) Kill(ctx context.Context) error {
	return t.until(ctx, func(strays []int) { t.signal(syscall.SIGKILL, strays) })
}

// Signal sends a signal to the process group. It returns syscall.ESRCH if the group is gone.
func (t Tree) Signal(sig syscall.Signal) error {
	if !t.grouped() {
		return syscall.ESRCH
	}
	return syscall.Kill(-t.Leader, sig)
}

// Continue resumes the process group, if it is stopped.
func (t Tree) Continue() { _ = t.Signal(syscall.SIGCONT) }

// terminator returns a function that sends TERM to the group once, and once to each process outside of it.
// CONT follows, since a stopped process does not handle TERM.
func (t Tree) terminator() func([]int) {
	group := false
	sent := map[int]bool{}

	return func(strays []int) {
		if !group {
			group = true
			_ = t.Signal(syscall.SIGTERM)
			_ = t.Signal(syscall.SIGCONT)
		}

		for _, pid := range strays {
			if !sent[pid] {
				sent[pid] = true
				_ = syscall.Kill(pid, syscall.SIGTERM)
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		}
	}
}

func (t Tree) signal(sig syscall.Signal, strays []int) {
	_ = t.Signal(sig) // the whole group in one call, so that none escapes by forking
	if sig == syscall.SIGKILL {
		t.killCgroup()
	}
	for _, pid := range strays {
		_ = syscall.Kill(pid, sig)
	}
}

// seen holds the start times of all processes outside of the group that any scan has found, by pid.
type seen map[int]uint64

// add records the result of a scan. It returns that result with the recorded processes that still live.
func (s seen) add(strays []int, alive bool) ([]int, bool) {
	for _, pid := range strays {
		if _, ok := s[pid]; !ok {
			s[pid] = startTime(pid)
		}
	}

	for pid, start := range s {
		if !slices.Contains(strays, pid) && living(pid, start) {
			strays = append(strays, pid)
			alive = true
		}
	}
	return strays, alive
}

var errAlive = errors.New("processes of the command still live")

// until calls act on what lives until nothing does, by two scans in a row: a process outside of the group is
// invisible in the moment in which it executes another program. For the same reason it scans twice before it
// first acts, and records what it has found: when the parent of a process without the mark is dead, nothing
// leads to that process any more.
func (t Tree) until(ctx context.Context, act func(strays []int)) error {
	wait := scanFirst
	empty := 0 // scans in a row that found nothing
	found := seen{}
	found.add(t.scan())

	for {
		strays, alive := found.add(t.scan())
		if alive {
			empty = 0
			act(strays)
		} else if empty++; empty == 2 {
			return nil
		}

		select {
		case <-ctx.Done():
			return errors.Join(errAlive, context.Cause(ctx))
		case <-time.After(wait):
		}

		wait = min(2*wait, scanMax)
		if empty == 1 {
			wait = scanFirst
		}
	}
}
