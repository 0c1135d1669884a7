package runner

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes has the program started in a process group of its own, in its cgroup if it has one, and killed with this process. Call
// done when it was started.
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

// stopped reports whether a child was stopped since it was last asked. It leaves its exit to whoever waits for that.
func stopped(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
	return err == nil && info.Signo != 0
}
