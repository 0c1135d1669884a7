package doctor

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/regentd/regent/cmd/regent/internal/container"
	"github.com/regentd/regent/reaper/proctree"
)

// enoughFiles is how many files a node should be allowed to have open.
const enoughFiles = 1024

// CheckMachine checks what this machine gives a node: clocks, files, and what the reaper needs.
func (r *Report) CheckMachine() {
	r.checkClock()
	r.checkFiles()
	r.checkReaper()
}

func (r *Report) checkClock() {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		r.Add("clock", Wrong, "use a kernel that has CLOCK_BOOTTIME",
			"the clock that counts a suspended machine's time cannot be read: %v", err)
		return
	}

	state, err := unix.Adjtimex(&unix.Timex{})
	switch {
	case err != nil:
		r.Add("clock", OK, "",
			"leases are counted on CLOCK_BOOTTIME; whether the wall clock is synchronised is not known: %v", err)
	case state == unix.TIME_ERROR:
		r.Add("clock", Warning, "run chrony, ntpd or systemd-timesyncd: due times of polls follow the wall clock",
			"the wall clock is not synchronised; leases do not depend on it")
	default:
		r.Add("clock", OK, "", "leases are counted on CLOCK_BOOTTIME; the wall clock is synchronised")
	}
}

func (r *Report) checkFiles() {
	var l unix.Rlimit
	switch err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); {
	case err != nil:
		r.Add("open files", Skipped, "", "the limit cannot be read: %v", err)
	case l.Cur < enoughFiles:
		r.Add("open files", Warning, "raise it: ulimit -n 4096, or LimitNOFILE= in the unit",
			"this user may have %d files open", l.Cur)
	default:
		r.Add("open files", OK, "", "this user may have %d files open", l.Cur)
	}
}

func (r *Report) checkReaper() {
	const without = "after a crash a standby takes over when the lease expires"
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		r.Add("reaper", Warning, "use Linux 5.3 or later", "pidfd_open: %v: there is no reaper, and %s", err, without)
		return
	}
	_ = unix.Close(fd)

	if container.Where() != container.Outside {
		r.Add("reaper", Warning, "keep the node's process tree alive with an init process, or accept it",
			"this is a container, which the reaper cannot outlive: if all of it is killed at once, %s", without)
	} else {
		r.Add("reaper", OK, "", "it can watch a process (pidfd): a crash is taken over in milliseconds")
	}

	if err := proctree.Confinable(); err != nil {
		r.Add("process trees", Warning,
			"let the node create cgroups (Delegate=yes in the unit), if programs start others",
			"a program has no cgroup of its own, so a process that leaves its session is not found: %v", err)
	} else {
		r.Add("process trees", OK, "", "every program gets a cgroup of its own")
	}
}
