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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/spawn"
	"github.com/regentd/regent/reaper/proctree"
)

const execSupported = true

const (
	outputMax  = 4 << 10
	killWait   = 5 * time.Second        // until killed processes have ended
	outputWait = 100 * time.Millisecond // for output, if a process that escaped holds the pipe open
)

// run runs the program, and returns when its whole process tree is gone.
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

	tree := proctree.New()
	cmd := &exec.Cmd{
		Path: path, Args: append([]string{p.path}, p.args...), Env: append(slices.Clip(p.env), tree.Mark),
		Dir: "/", Stdout: to, Stderr: to, SysProcAttr: processGroup(),
	}
	exited, err := spawn.Start(cmd, func(pid int) { tree = tree.Started(pid) })
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

	killed := tree.Kill(limit)
	_ = from.SetReadDeadline(time.Now().Add(outputWait))
	text := <-output

	if killed != nil {
		return Outcome{Message: "it was killed, and has not ended"}, nil
	}

	<-exited
	return outcome(cmd.ProcessState, text, late), nil
}

// outcome returns the outcome of a program that has ended, by its state and its output.
func outcome(state *os.ProcessState, output string, late bool) Outcome {
	first, _, _ := strings.Cut(strings.TrimSpace(output), "\n")
	o := Outcome{
		OK:      state.Success() && !late,
		Message: oneLine(first, messageMax),
		Detail:  map[string]string{"exitCode": strconv.Itoa(state.ExitCode())},
	}

	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case late:
		o.Message = strings.TrimSuffix("killed, because it did not end in time: "+first, ": ")
		delete(o.Detail, "exitCode")
	case ok && status.Signaled():
		sig := status.Signal()
		o.Message = strings.TrimSuffix(fmt.Sprintf("ended by signal %d (%v): %s", sig, sig, first), ": ")
		o.Detail["exitCode"] = strconv.Itoa(128 + int(sig)) // as shells report it
	case o.Message == "":
		o.Message = "exit code " + o.Detail["exitCode"]
	}

	return o
}

// find returns the path of a program. It does not use the PATH of this process.
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

// readSome returns the beginning of the output. It reads all of it, so that the program does not block.
func readSome(r io.Reader) string {
	some, _ := io.ReadAll(io.LimitReader(r, outputMax)) // after an error the part before it counts
	_, _ = io.Copy(io.Discard, r)
	return string(some)
}
