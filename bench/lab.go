package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// patience is how long anything may take that should be there soon.
const patience = 60 * time.Second

// lab is where a figure is made: a directory, and what was started there. Closing it stops and removes everything, the newest first.
type lab struct {
	dir string

	mu     sync.Mutex
	closes []func()
}

func newLab() (*lab, error) {
	dir, err := os.MkdirTemp("", "regent-bench-")
	if err != nil {
		return nil, err
	}
	// A server that may not run as root must be able to reach its own directory in there.
	return &lab{dir: dir}, os.Chmod(dir, 0o711)
}

func (l *lab) onClose(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closes = append(l.closes, f)
}

func (l *lab) close() {
	l.mu.Lock()
	closes := l.closes
	l.closes = nil
	l.mu.Unlock()
	for _, f := range slices.Backward(closes) {
		f()
	}
	_ = os.RemoveAll(l.dir)
}

// subdir makes a directory of its own for somebody.
func (l *lab) subdir(name string) (string, error) { return os.MkdirTemp(l.dir, name+"-") }

// launch starts a server whose output goes to a file, and waits until it is ready. It ends with the lab, or with this process.
func (l *lab) launch(cmd *exec.Cmd, dir string, ready func() error) error {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() { defer close(gone); _ = cmd.Wait() }()
	l.onClose(func() {
		_ = cmd.Process.Signal(os.Interrupt) // a fast stop, for both kinds of server
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-gone
		}
	})
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(patience); ; <-tick.C {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-gone:
			limit = time.Now()
		default:
		}
		if !time.Now().Before(limit) {
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s does not come up: %w: %s", filepath.Base(cmd.Path), err, said)
		}
	}
}

// closeQuietly is for what is thrown away.
func closeQuietly(c io.Closer) { _ = c.Close() }

// addresses starts both servers, and returns a side's. Without PostgreSQL its side has none, and a note says so.
func (l *lab) addresses(ctx context.Context) (of func(side) (string, bool), notes []string, err error) {
	r, err := l.redis()
	if err != nil {
		return nil, nil, err
	}
	pg, err := l.postgres(ctx)
	if errors.Is(err, errNoPostgres) {
		notes, err = append(notes, err.Error()), nil
	}
	return func(s side) (string, bool) {
		if s.postgres {
			return pg, pg != ""
		}
		return r.addr, true
	}, notes, err
}
