//go:build unix

package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/regentd/regent/reaper/proctree"
)

const execSupported = true

const (
	outputMax  = 4 << 10
	killWait   = 5 * time.Second        // for the kernel to end what was killed
	outputWait = 100 * time.Millisecond // for what a process that got away may still hold open
)

// run runs the program, and returns once everything that it has started is gone.
func (p *program) run(ctx context.Context) (Outcome, error) {
	path, err := find(p.path)
	if err != nil {
		return Outcome{}, fmt.Errorf("program %.200q cannot be run here: %w", p.path, err)
	}
	from, to, err := os.Pipe()
	if err != nil {
		return Outcome{}, err
	}
	defer from.Close()
	b := proctree.New()
	cmd := &exec.Cmd{Path: path, Args: append([]string{p.path}, p.args...), Env: append(p.env[:len(p.env):len(p.env)], b.Mark),
		Dir: "/", Stdout: to, Stderr: to, SysProcAttr: processGroup()}
	b, exited, err := start(cmd, b)
	_ = to.Close()
	if err != nil {
		return Outcome{}, fmt.Errorf("program %.200q cannot be run here: %w", p.path, plainly(err))
	}
	output := make(chan string, 1)
	go func() { output <- readSome(from) }()

	late := false
	select {
	case <-exited:
	case <-ctx.Done():
		late = true
	}
	limit, cancel := context.WithTimeout(context.Background(), killWait)
	defer cancel()
	killed := b.Kill(limit)
	_ = from.SetReadDeadline(time.Now().Add(outputWait))
	said := <-output
	if killed != nil {
		return Outcome{Message: "it was killed, and still lives"}, nil
	}
	<-exited
	return p.judge(cmd.ProcessState, said, late), nil
}

func (p *program) judge(state *os.ProcessState, said string, late bool) Outcome {
	first, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
	o := Outcome{OK: state.Success() && !late, Message: oneLine(first, messageMax), Detail: map[string]string{"exitCode": strconv.Itoa(state.ExitCode())}}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case late:
		o.Message = strings.TrimSuffix("killed, since it did not end in time: "+first, ": ")
		delete(o.Detail, "exitCode")
	case ok && status.Signaled():
		o.Message = strings.TrimSuffix(fmt.Sprintf("ended by signal %d (%v): %s", status.Signal(), status.Signal(), first), ": ")
		o.Detail["exitCode"] = strconv.Itoa(128 + int(status.Signal())) // as shells have it
	case o.Message == "":
		o.Message = "exit code " + o.Detail["exitCode"]
	}
	return o
}

// find returns where a program is. The PATH of this process does not matter.
func find(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	for _, dir := range filepath.SplitList(execPath) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", errors.New("it is not in " + execPath)
}

// plainly returns the error of a start without the name of the system call.
func plainly(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// start starts the program in a process group of its own, and returns its process tree and a channel that is closed when it has exited. A death
// signal comes when the thread that started it ends, not its process, so that thread is kept until then.
func start(cmd *exec.Cmd, b proctree.Tree) (proctree.Tree, <-chan struct{}, error) {
	exited, started := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			b = b.Started(cmd.Process.Pid) // before it is waited for: until then the pid is its own
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // its state tells
			close(exited)
		}
	}()
	err := <-started
	return b, exited, err
}

// readSome reads all, so that the program can write on, and returns the beginning.
func readSome(r io.Reader) string {
	some, _ := io.ReadAll(io.LimitReader(r, outputMax)) // whatever has come counts
	_, _ = io.Copy(io.Discard, r)
	return string(some)
}
