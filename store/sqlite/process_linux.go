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

// process names one process for as long as anybody remembers it. A pid alone is used again; a pid
// of another namespace or of another boot is another's; and a start time reads differently in
// another time namespace.
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

// parseProcess reads what String wrote, and what follows it in older databases: " machine=" and a
// hash.
func parseProcess(s string) (p process, ok bool) {
	if s == "" {
		return process{}, false
	}
	n, err := fmt.Sscanf(s, processFormat, &p.pid, &p.start, &p.pidns, &p.timens, &p.boot)
	return p, err == nil && n == 5 && p.pid > 0
}

// state is what the kernel says of a pid.
type state int

const (
	unknown state = iota // it would not say
	running
	exited // every thread has ended, and only its parent's wait is missing
	absent
)

// visible reports whether p's pid means the same process to both.
func (p process) visible(self process) bool {
	return p.boot != "" && p.boot == self.boot && p.pidns == self.pidns && p.timens == self.timens
}

// dead reports whether p is proved dead.
func (p process) dead(self process) bool { return p.provedDead(self, look) }

// provedDead decides it. look tells the state of a pid and when its process started, 0 if it would not say.
//
// Of a process of another boot nothing is proved, not even if the machine-id is the same: a clone
// of a machine has its machine-id, its disks and its journal, and the machine that it was cloned
// from may still run. No file tells a machine that was restarted from a clone of it. So the lease
// of such a process has to run out.
func (p process) provedDead(self process, look func(pid int) (state, uint64)) bool {
	if !p.visible(self) {
		return false
	}
	switch st, start := look(p.pid); st {
	case absent, exited: // whoever has the pid now: the one who wrote is gone
		return true
	case running:
		return start != 0 && start != p.start
	default:
		return false
	}
}

// self returns this process, or an error where /proc does not tell, or tells of another pid namespace.
func self() (process, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return process{}, err
	}
	p := process{pid: os.Getpid(), start: startTime(os.Getpid())}
	_, rest, _ := strings.Cut(string(status), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	if strings.TrimSpace(line) != strconv.Itoa(p.pid) || p.start == 0 {
		return process{}, fmt.Errorf("/proc is not of this process's pid namespace (NSpid %q, pid %d)", strings.TrimSpace(line), p.pid)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return process{}, err
	}
	p.boot = strings.TrimSpace(string(boot))
	if p.pidns, err = namespace("pid"); err != nil {
		return process{}, err
	}
	if p.timens, err = namespace("time"); err != nil && !errors.Is(err, fs.ErrNotExist) { // kernels before 5.6 have none
		return process{}, err
	}
	if p.boot == "" || strings.ContainsAny(p.boot, " \t") {
		return process{}, fmt.Errorf("boot id %q makes no sense", p.boot)
	}
	return p, nil
}

// namespace returns the inode of one of this process's namespaces.
func namespace(kind string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/"+kind, &st); err != nil {
		return 0, fmt.Errorf("look up %s namespace: %w", kind, err)
	}
	return st.Ino, nil
}

// startTime returns field 22 of /proc/PID/stat, or 0. The name in field 2 may hold anything, brackets included.
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

// look asks the kernel about a pid. A pidfd becomes readable when the last thread has ended; /proc alone would call a process dead
// whose first thread has ended before the others, and one that hidepid hides.
func look(pid int) (state, uint64) {
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
