package container

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// hostNamespace is the name of the first pid namespace. Its number is fixed.
const hostNamespace = "pid:[4026531836]"

// Where returns the position of this process in its container.
func Where() Place {
	if os.Getpid() == 1 {
		return First
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")

	// systemd, as the init of a container.
	managed := os.Getenv("INVOCATION_ID") != "" || os.Getenv("NOTIFY_SOCKET") != ""
	if err != nil || namespace == hostNamespace || os.Getppid() != 1 || managed {
		return Outside
	}

	return BelowTop
}

// Run starts this program again as a child, with [Command] and the arguments, and forwards signals to it. It returns
// the child's exit code once the child has ended and no child process whose first argument is keeper is left. Until
// then it reaps every process that ends.
func Run(args []string, keeper string) (code int, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1, fmt.Errorf("adopt orphans: %w", err)
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	defer signal.Stop(signals)

	cmd := exec.Command("/proc/self/exe", append([]string{Command}, args...)...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	if foreground() {
		cmd.SysProcAttr.Foreground = true // what the terminal sends goes to the child, once
		cmd.SysProcAttr.Ctty = int(os.Stdin.Fd())
	}

	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("start the node: %w", err)
	}
	go forward(signals, cmd.Process)

	return wait(cmd.Process.Pid, keeper), nil
}

// wait reaps processes until the child has ended and no keeper is left. It returns the child's exit code.
func wait(child int, keeper string) int {
	code := -1
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil: // no child is left
			return max(code, 1)
		case pid == child:
			code = exitCode(status)
		}

		if code >= 0 && !left(keeper) {
			return code
		}
	}
}

// foreground reports whether stdin is a terminal and this process is in its foreground.
func foreground() bool {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// forward sends signals on to the child, but for those that concern this process alone. It uses the child's pidfd: once
// the child was reaped, its pid may be another's.
func forward(signals <-chan os.Signal, child *os.Process) {
	for sig := range signals {
		switch sig {
		case syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE, syscall.SIGTTIN, syscall.SIGTTOU:
		default:
			_ = child.Signal(sig)
		}
	}
}

// exitCode returns the exit code that a shell would report.
func exitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// left reports whether a child of this process has that first argument. One that has ended has no arguments.
func left(name string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		text, err := os.ReadFile(file)
		words := strings.Split(string(text), "\x00")
		if err == nil && len(words) > 1 && words[1] == name && parent(filepath.Dir(file)) == os.Getpid() {
			return true
		}
	}

	return false
}

// parent returns the parent of a process, by its directory below /proc.
func parent(dir string) int {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0
	}

	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 2 {
		return 0
	}

	pid, _ := strconv.Atoi(fields[1])
	return pid
}
