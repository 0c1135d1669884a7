// Package demo runs three processes on one embedded store, kills the leader, stops the next one, and writes who took
// over and how long nobody led.
package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/regentd/regent"
)

// eventTimeout is how long the demo waits for an event. The lease is 6 s, so it is enough even if no notification
// comes.
const eventTimeout = 30 * time.Second

// Run runs the demo and writes what happens to out.
func Run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 3*eventTimeout)
	defer cancel()

	dir, err := os.MkdirTemp("", "regent-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	s := &show{
		out: out, begin: time.Now(), db: filepath.Join(dir, "regent.db"),
		events: make(chan timedEvent, 256), nodes: map[string]*process{},
	}
	defer s.killAll()

	err = s.run(ctx)
	if ctx.Err() != nil && err != nil {
		return fmt.Errorf("demo did not end in time: %w", err)
	}

	return err
}

// show is one run of the demo.
type show struct {
	out    io.Writer
	begin  time.Time
	db     string
	events chan timedEvent
	nodes  map[string]*process
	epoch  uint64
}

// process is a node.
type process struct {
	name string
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended
}

// timedEvent is an event of a node, and when it was read.
type timedEvent struct {
	regent.Event
	at time.Time
}

func (s *show) run(ctx context.Context) error {
	s.print("three processes, one SQLite file, one election; the lease is %v", regent.Cluster().LeaseDuration)
	for _, name := range []string{"ada", "bob", "cyd"} {
		if err := s.join(ctx, name); err != nil {
			return err
		}
	}

	leader, err := s.leader(ctx, time.Time{})
	if err != nil {
		return err
	}

	for _, act := range []struct {
		what string
		sig  syscall.Signal
	}{{"kill -9", syscall.SIGKILL}, {"kill -9", syscall.SIGKILL}, {"kill -TERM", syscall.SIGTERM}} {
		old := s.nodes[leader]
		s.print("%s %s (pid %d)", act.what, leader, old.cmd.Process.Pid)
		at := time.Now()

		if err := old.cmd.Process.Signal(act.sig); err != nil {
			return err
		}
		if leader, err = s.leader(ctx, at); err != nil {
			return err
		}

		<-old.gone
		if err := s.join(ctx, old.name); err != nil {
			return err
		}

		s.print("%s is back, and stands by", old.name)
	}

	s.print("done: %d terms, each with an epoch one higher", s.epoch)
	return nil
}

// join starts a node and waits until it has joined.
func (s *show) join(ctx context.Context, name string) error {
	if err := s.start(name); err != nil {
		return err
	}
	return s.await(ctx, name, regent.EventMemberJoined)
}

// leader waits for the next node that leads, and returns its name. It prints how long that took since a time, unless
// that is zero.
func (s *show) leader(ctx context.Context, since time.Time) (string, error) {
	h, err := s.next(ctx, func(h timedEvent) bool { return h.Kind == regent.EventBecameLeader })
	if err != nil {
		return "", err
	}
	if s.epoch++; h.Epoch != s.epoch {
		return "", fmt.Errorf("%s leads in epoch %d, and the next one is %d", h.Node, h.Epoch, s.epoch)
	}

	if since.IsZero() {
		s.print("%s leads, epoch %d", h.Node, h.Epoch)
	} else {
		s.print("%s leads, epoch %d: %.1f ms later", h.Node, h.Epoch, float64(h.at.Sub(since).Microseconds())/1000)
	}

	return h.Node, nil
}

// await waits for an event of a node. It keeps the other events for later.
func (s *show) await(ctx context.Context, node string, kind regent.EventKind) error {
	var others []timedEvent
	_, err := s.next(ctx, func(h timedEvent) bool {
		if h.Node == node && h.Kind == kind {
			return true
		}
		others = append(others, h)
		return false
	})

	for _, h := range others {
		s.events <- h
	}
	return err
}

// next returns the next event that is wanted.
func (s *show) next(ctx context.Context, wanted func(timedEvent) bool) (timedEvent, error) {
	limit := time.NewTimer(eventTimeout)
	defer limit.Stop()

	for {
		select {
		case h := <-s.events:
			if wanted(h) {
				return h, nil
			}
		case <-limit.C:
			return timedEvent{}, fmt.Errorf("no such event for %v", eventTimeout)
		case <-ctx.Done():
			return timedEvent{}, context.Cause(ctx)
		}
	}
}

// start starts a node as a process, and reads its events.
func (s *show) start(name string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}

	cmd := exec.Command(self, NodeCommand, s.db, name)
	cmd.Stderr = os.Stderr

	if _, err := cmd.StdinPipe(); err != nil { // the node ends when this process closes it
		return err
	}

	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}

	p := &process{name: name, cmd: cmd, gone: make(chan struct{})}
	s.nodes[name] = p

	go func() {
		defer close(p.gone)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			var e regent.Event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				s.events <- timedEvent{e, time.Now()}
			}
		}

		_ = cmd.Wait() // it was killed, or stopped
	}()

	return nil
}

// killAll kills all nodes and waits until they have ended.
func (s *show) killAll() {
	for _, p := range s.nodes {
		if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			s.print("%s: %v", p.name, err)
		}
		for done := false; !done; {
			select {
			case <-p.gone:
				done = true
			case <-s.events: // so that its reader does not wait for room
			}
		}
	}
}

// print writes a line with the time since the demo began.
func (s *show) print(format string, args ...any) {
	fmt.Fprintf(s.out, "%7.3f  %s\n", time.Since(s.begin).Seconds(), fmt.Sprintf(format, args...))
}
