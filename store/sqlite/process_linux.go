package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process identifies one process for ever. A pid alone is reused. A pid of another namespace or another boot is another
// process. A start time has another meaning in another time namespace.
type process struct {
	pid    int
	start  uint64 // in clock ticks since boot
	pidns  uint64
	timens uint64
	boot   string
}

const processFormat = "pid=%d start=%d pidns=%d timens=%d boot=%s"

func (p process) String() string {
	return fmt.Sprintf(processFormat, p.pid, p.start, p.pidns, p.timens, p.boot)
}

// parseProcess parses what String wrote. Older databases have " machine=" and a hash after it.
func parseProcess(s string) (p process, ok bool) {
	if s == "" {
		return process{}, false
	}
	n, err := fmt.Sscanf(s, processFormat, &p.pid, &p.start, &p.pidns, &p.timens, &p.boot)
	return p, err == nil && n == 5 && p.pid > 0
}

// procState is the state of a pid.
type procState int

const (
	unknown procState = iota // the kernel does not say
	running
	exited // every thread has ended, and its parent has not waited for it
	absent
)

// visible reports whether p's pid means the same process in the namespaces of self.
func (p process) visible(self process) bool {
	return p.boot != "" && p.boot == self.boot && p.pidns == self.pidns && p.timens == self.timens
}

// dead reports whether p is proved dead.
func (p process) dead(self process) bool { return p.provedDead(self, processState) }

// provedDead is dead with stateOf, which returns the state of a pid and when its process started, 0 if unknown.
//
// Nothing is proved about a process of another boot, even if the machine-id is the same: a clone of a machine has its
// machine-id, its disks and its journal, and the original may still run. No file tells a restarted machine from a clone
// of it. So the lease of such a process has to expire.
func (p process) provedDead(self process, stateOf func(pid int) (procState, uint64)) bool {
	if !p.visible(self) {
		return false
	}

	switch st, start := stateOf(p.pid); st {
	case absent, exited: // whatever process has the pid now, the writer is gone
		return true
	case running:
		return start != 0 && start != p.start
	default:
		return false
	}
}

// self returns this process. It returns an error if /proc is not there, or is that of another pid namespace.
func self() (process, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return process{}, err
	}

	p := process{pid: os.Getpid(), start: startTime(os.Getpid())}
	_, rest, _ := strings.Cut(string(status), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	if strings.TrimSpace(line) != strconv.Itoa(p.pid) || p.start == 0 {
		return process{}, fmt.Errorf("/proc is not of this process's pid namespace (NSpid %q, pid %d)",
			strings.TrimSpace(line), p.pid)
	}

	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return process{}, err
	}

	p.boot = strings.TrimSpace(string(boot))
	if p.pidns, err = namespace("pid"); err != nil {
		return process{}, err
	}

	// Kernels before 5.6 have none.
	if p.timens, err = namespace("time"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return process{}, err
	}

	if p.boot == "" || strings.ContainsAny(p.boot, " \t") {
		return process{}, fmt.Errorf("boot id %q is not valid", p.boot)
	}
	return p, nil
}

// namespace returns the inode of one of this process's namespaces.
func namespace(kind string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/"+kind, &st); err != nil {
		return 0, fmt.Errorf("read the %s namespace: %w", kind, err)
	}
	return st.Ino, nil
}

// startTime returns field 22 of /proc/PID/stat, or 0. The name in field 2 may contain anything, parentheses included.
func startTime(pid int) uint64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}

	s := string(b)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 20 {
		return 0
	}

	start, _ := strconv.ParseUint(fields[19], 10, 64)
	return start
}

// processState asks the kernel for the state of a pid. A pidfd becomes readable when the last thread has ended. /proc
// alone would report a process as dead if its first thread ends before the others, or if hidepid hides it.
func processState(pid int) (procState, uint64) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return absent, 0
	}
	if err != nil { // an old kernel, or a seccomp filter
		if unix.Kill(pid, 0) == unix.ESRCH {
			return absent, 0
		}
		return running, startTime(pid)
	}
	defer unix.Close(fd)

	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 0); err != nil || n > 0 && poll[0].Revents&unix.POLLIN == 0 {
		return unknown, 0
	} else if n > 0 {
		return exited, 0
	}

	return running, startTime(pid)
}
