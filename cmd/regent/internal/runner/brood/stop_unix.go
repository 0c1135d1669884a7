//go:build unix

package brood

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"
)

// Led returns the brood once its command was started, in a process group of its own.
func (b Brood) Led(pid int) Brood {
	b.Leader, b.Start = pid, startTime(pid)
	return b
}

// How often it is looked whether anything still lives: soon at first, since most things die at once.
const (
	lookFirst = 500 * time.Microsecond
	lookMax   = 20 * time.Millisecond
)

// Stop asks everything to end, ends it by force after patience, and returns once nothing lives any more, however long that takes.
// It calls forced before it uses force.
func (b Brood) Stop(patience time.Duration, forced func()) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if b.until(ctx, b.asker()) != nil {
		forced()
		_ = b.Kill(context.Background())
	}
}

// Kill ends everything by force, and returns once the kernel shows nothing alive, or with an error when ctx ends before.
func (b Brood) Kill(ctx context.Context) error {
	return b.until(ctx, func(strays []int) { b.signal(syscall.SIGKILL, strays) })
}

// Signal sends a signal to the process group.
func (b Brood) Signal(sig syscall.Signal) error {
	if !b.grouped() {
		return syscall.ESRCH
	}
	return syscall.Kill(-b.Leader, sig)
}

// Continue lets the process group go on, if it is stopped.
func (b Brood) Continue() { _ = b.Signal(syscall.SIGCONT) }

// asker sends TERM to the group once, and once to each that has left it. Those that are stopped must go on to hear it.
func (b Brood) asker() func([]int) {
	asked := map[int]bool{}
	return func(strays []int) {
		var fresh []int
		for _, pid := range strays {
			if !asked[pid] {
				fresh, asked[pid] = append(fresh, pid), true
			}
		}
		if !asked[0] {
			asked[0] = true
			_ = b.Signal(syscall.SIGTERM)
			_ = b.Signal(syscall.SIGCONT)
		}
		for _, pid := range fresh {
			_ = syscall.Kill(pid, syscall.SIGTERM)
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

func (b Brood) signal(sig syscall.Signal, strays []int) {
	_ = b.Signal(sig) // the whole group in one call, so that none escapes by forking
	if sig == syscall.SIGKILL {
		b.killCgroup()
	}
	for _, pid := range strays {
		_ = syscall.Kill(pid, sig)
	}
}

// sightings are the processes out of the group that were ever seen, with the time at which each had started.
type sightings map[int]uint64

// add takes in a look, and adds to it those seen before who still live.
func (s sightings) add(strays []int, alive bool) ([]int, bool) {
	for _, pid := range strays {
		if _, ok := s[pid]; !ok {
			s[pid] = startTime(pid)
		}
	}
	for pid, start := range s {
		if !slices.Contains(strays, pid) && living(pid, start) {
			strays, alive = append(strays, pid), true
		}
	}
	return strays, alive
}

var errAlive = errors.New("processes of the command still live")

// until acts on what lives until nothing does. It believes that only when it has looked twice: a process that has left the group cannot be
// seen in the very moment in which it executes another program. For the same reason it looks twice before it first acts, and remembers
// whom it has seen: once the parent of one without the mark is dead, nothing leads to it any more.
func (b Brood) until(ctx context.Context, act func(strays []int)) error {
	wait, quiet := lookFirst, 0
	seen := sightings{}
	seen.add(b.look())
	for {
		strays, alive := seen.add(b.look())
		if alive {
			quiet = 0
			act(strays)
		} else if quiet++; quiet == 2 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(errAlive, context.Cause(ctx))
		case <-time.After(wait):
		}
		if wait = min(2*wait, lookMax); quiet == 1 {
			wait = lookFirst
		}
	}
}
