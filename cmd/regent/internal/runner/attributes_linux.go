package runner

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes returns the attributes of a program that runs in a process group of its own, in its cgroup if it has one,
// and is killed with this process. The caller calls done after the start.
func attributes(cgroup string) (attr *syscall.SysProcAttr, done func(), err error) {
	attr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if cgroup == "" {
		return attr, func() {}, nil
	}

	dir, err := os.Open(cgroup)
	if err != nil {
		return nil, nil, err
	}

	attr.UseCgroupFD = true
	attr.CgroupFD = int(dir.Fd())
	return attr, func() { _ = dir.Close() }, nil
}

// stopped reports whether a child was stopped since the last call. It does not reap the child.
func stopped(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
	return err == nil && info.Signo != 0
}
