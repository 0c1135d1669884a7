package compare

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

	"github.com/regentd/regent/bench/internal/process"
)

// waitLimit is how long a step may take that should be done soon.
const waitLimit = 60 * time.Second

// lab is the place of a measurement: a directory, and the processes that were started in it. Closing it stops and
// removes all of them, the newest first.
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

	// A server that must not run as root has to reach its own directory below this one.
	return &lab{dir: dir}, os.Chmod(dir, 0o711)
}

// onClose adds a function that close calls.
func (l *lab) onClose(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closes = append(l.closes, f)
}

func (l *lab) close() {
	for _, f := range slices.Backward(l.takeCloses()) {
		f()
	}
	_ = os.RemoveAll(l.dir)
}

// takeCloses returns the functions that close is to call, and forgets them.
func (l *lab) takeCloses() []func() {
	l.mu.Lock()
	defer l.mu.Unlock()

	closes := l.closes
	l.closes = nil
	return closes
}

// subdir makes a directory below that of the lab.
func (l *lab) subdir(name string) (string, error) { return os.MkdirTemp(l.dir, name+"-") }

// sqlite returns the address of a new SQLite store. Its file is in memory where that is possible, so that the disk,
// which others use too, is not what is measured.
func (l *lab) sqlite() (string, error) {
	dir, err := os.MkdirTemp("/dev/shm", "regent-bench-")
	if err != nil {
		dir, err = l.subdir("sqlite")
	}
	if err != nil {
		return "", err
	}

	l.onClose(func() { _ = os.RemoveAll(dir) })
	return "sqlite:" + filepath.Join(dir, "regent.db"), nil
}

// launch starts a server whose output goes to a file, and waits until it is ready. The server ends with the lab, or
// with this process.
func (l *lab) launch(cmd *exec.Cmd, dir string, ready func() error) error {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()

	cmd.Dir = dir
	cmd.Stdout = log
	cmd.Stderr = log

	gone, err := process.Start(cmd)
	if err != nil {
		return err
	}

	l.onClose(func() {
		_ = cmd.Process.Signal(os.Interrupt) // both kinds of server stop at once
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-gone
		}
	})

	return awaitReady(cmd, log.Name(), gone, ready)
}

// awaitReady waits until ready succeeds. If the server ends before, or takes too long, the error has its output.
func awaitReady(cmd *exec.Cmd, log string, gone <-chan struct{}, ready func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()

	for limit := time.Now().Add(waitLimit); ; <-tick.C {
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
			output, _ := os.ReadFile(log)
			return fmt.Errorf("%s does not become ready: %w: %s", filepath.Base(cmd.Path), err, output)
		}
	}
}

// closeQuietly closes c, and ignores the error.
func closeQuietly(c io.Closer) { _ = c.Close() }

// addresses starts both servers, and returns a function that gives the address for a side. Without PostgreSQL its side
// has none, and a note says so.
func (l *lab) addresses(ctx context.Context) (of func(side) (string, bool), notes []string, err error) {
	r, err := l.redis()
	if err != nil {
		return nil, nil, err
	}

	pg, err := l.postgres(ctx)
	if errors.Is(err, errNoPostgres) {
		notes = append(notes, err.Error())
		err = nil
	}

	return func(s side) (string, bool) {
		if s.postgres {
			return pg, pg != ""
		}
		return r.addr, true
	}, notes, err
}
