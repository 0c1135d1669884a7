// Package demo shows what Regent does with three real processes on one embedded store: the leader is killed, then told to stop, and each
// time the page of output says who took over and how long nobody led.
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

// patience is how long the demo waits for anything. The lease is 6 s, so even without any push it would do.
const patience = 30 * time.Second

// Run plays the demo and writes it to out.
func Run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	dir, err := os.MkdirTemp("", "regent-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &show{out: out, begin: time.Now(), db: filepath.Join(dir, "regent.db"), happened: make(chan happening, 256), nodes: map[string]*process{}}
	defer s.killAll()
	err = s.play(ctx)
	if ctx.Err() != nil && err != nil {
		return fmt.Errorf("demo was cut short: %w", err)
	}
	return err
}

// show is one run of the demo.
type show struct {
	out      io.Writer
	begin    time.Time
	db       string
	happened chan happening
	nodes    map[string]*process
	epoch    uint64
}

// process is a node that runs.
type process struct {
	name string
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended
}

// happening is an event of a node, and when it was read.
type happening struct {
	regent.Event
	at time.Time
}

func (s *show) play(ctx context.Context) error {
	s.say("three processes, one SQLite file, one seat; the lease is %v", regent.Cluster().LeaseDuration)
	for _, name := range []string{"ada", "bob", "cyd"} {
		if err := s.start(name); err != nil {
			return err
		}
		if err := s.await(ctx, name, regent.EventMemberJoined); err != nil {
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
		s.say("%s %s (pid %d)", act.what, leader, old.cmd.Process.Pid)
		at := time.Now()
		if err := old.cmd.Process.Signal(act.sig); err != nil {
			return err
		}
		if leader, err = s.leader(ctx, at); err != nil {
			return err
		}
		<-old.gone
		if err := s.start(old.name); err != nil {
			return err
		}
		if err := s.await(ctx, old.name, regent.EventMemberJoined); err != nil {
			return err
		}
		s.say("%s is back, and stands by", old.name)
	}
	s.say("done: %d terms, each with an epoch one higher", s.epoch)
	return nil
}

// leader waits for the next node that leads, and says how long that took since a moment, if one is given.
func (s *show) leader(ctx context.Context, since time.Time) (string, error) {
	h, err := s.next(ctx, func(h happening) bool { return h.Kind == regent.EventBecameLeader })
	if err != nil {
		return "", err
	}
	if s.epoch++; h.Epoch != s.epoch {
		return "", fmt.Errorf("%s leads in epoch %d, where %d was to come", h.Node, h.Epoch, s.epoch)
	}
	if since.IsZero() {
		s.say("%s leads, epoch %d", h.Node, h.Epoch)
	} else {
		s.say("%s leads, epoch %d: %.1f ms later", h.Node, h.Epoch, float64(h.at.Sub(since).Microseconds())/1000)
	}
	return h.Node, nil
}

func (s *show) await(ctx context.Context, node, kind string) error {
	var put []happening
	_, err := s.next(ctx, func(h happening) bool {
		if h.Node == node && h.Kind == kind {
			return true
		}
		put = append(put, h)
		return false
	})
	for _, h := range put { // for whoever waits for them
		s.happened <- h
	}
	return err
}

func (s *show) next(ctx context.Context, wanted func(happening) bool) (happening, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case h := <-s.happened:
			if wanted(h) {
				return h, nil
			}
		case <-limit.C:
			return happening{}, fmt.Errorf("nothing happened for %v", patience)
		case <-ctx.Done():
			return happening{}, context.Cause(ctx)
		}
	}
}

// start runs a node as a process of its own, and reads its events.
func (s *show) start(name string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, NodeCommand, s.db, name)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // open as long as this process lives: the node ends with it
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
				s.happened <- happening{e, time.Now()}
			}
		}
		_ = cmd.Wait() // killed, most likely
	}()
	return nil
}

func (s *show) killAll() {
	for _, p := range s.nodes {
		if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			s.say("%s: %v", p.name, err)
		}
		for done := false; !done; {
			select {
			case <-p.gone:
				done = true
			case <-s.happened: // so that its reader is not stuck
			}
		}
	}
}

func (s *show) say(format string, args ...any) {
	fmt.Fprintf(s.out, "%7.3f  %s\n", time.Since(s.begin).Seconds(), fmt.Sprintf(format, args...))
}
