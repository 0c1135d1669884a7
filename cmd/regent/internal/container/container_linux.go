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

// hostNamespace is what the kernel calls the first pid namespace: its number is fixed.
const hostNamespace = "pid:[4026531836]"

// Where returns where this process stands.
func Where() Place {
	if os.Getpid() == 1 {
		return First
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	managed := os.Getenv("INVOCATION_ID") != "" || os.Getenv("NOTIFY_SOCKET") != "" // systemd, in a container of its own
	if err != nil || namespace == hostNamespace || os.Getppid() != 1 || managed {
		return Outside
	}
	return BelowTop
}

// Run starts this program again with [Command] and the arguments, passes signals on to it, and returns its exit code when it has ended and
// no process that is named keeper, after the program, is left of it. Meanwhile it reaps whatever ends.
func Run(args []string, keeper string) (code int, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1, fmt.Errorf("adopt orphans: %w", err)
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	defer signal.Stop(signals)

	cmd := exec.Command("/proc/self/exe", append([]string{Command}, args...)...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if foreground() {
		cmd.SysProcAttr.Foreground = true // what the terminal sends goes to the child, once
		cmd.SysProcAttr.Ctty = int(os.Stdin.Fd())
	}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("start the node: %w", err)
	}
	child := cmd.Process.Pid
	go pass(signals, cmd.Process)

	code = -1
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil: // nobody is left
			return max(code, 1), nil
		case pid == child:
			code = exitCode(status)
		}
		if code >= 0 && !left(keeper) {
			return code, nil
		}
	}
}

// foreground reports whether stdin is a terminal whose foreground this process is in.
func foreground() bool {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// pass sends on what means something to the child, by its pidfd: once it was reaped, its pid may be another's.
func pass(signals <-chan os.Signal, child *os.Process) {
	for sig := range signals {
		switch sig {
		case syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE, syscall.SIGTTIN, syscall.SIGTTOU:
		default:
			_ = child.Signal(sig)
		}
	}
}

// exitCode is as shells have it.
func exitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// left reports whether a child of this process is of that name, after the program's. Those that have ended have none.
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
