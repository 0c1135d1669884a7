package proctree

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// process holds fields of /proc/PID/stat.
type process struct {
	pid    int
	parent int
	group  int
	start  uint64
	zombie bool
}

// scan returns the living processes of the tree that are not in its group, and whether any process of the tree
// lives at all.
func (t Tree) scan() (strays []int, alive bool) {
	grouped := t.grouped()
	strays, confined := t.confined()
	all, err := processes()
	if err != nil { // no /proc: only the group can be asked for
		return strays, confined || grouped && syscall.Kill(-t.Leader, 0) != syscall.ESRCH
	}

	alive = confined
	ours := map[int]bool{}
	for _, pid := range strays {
		ours[pid] = true
	}

	rest := all[:0]
	for _, p := range all {
		switch {
		case p.zombie && p.dead(), ours[p.pid]:
		case grouped && p.group == t.Leader:
			ours[p.pid] = true
			alive = true
		case t.Adopter != 0 && p.parent == t.Adopter && p.pid != os.Getpid():
			ours[p.pid] = true
			strays = append(strays, p.pid)
		case p.start >= t.Start && t.marks(p.pid): // a process that started before the command is not its child
			ours[p.pid] = true
			strays = append(strays, p.pid)
		case p.start >= t.Start:
			rest = append(rest, p)
		}
	}

	strays = append(strays, descendants(rest, ours)...)

	if !alive && grouped && syscall.Kill(-t.Leader, 0) == syscall.EPERM {
		alive = true // a process of another user, which /proc may hide
	}
	return strays, alive || len(strays) > 0
}

// descendants returns the processes of rest whose ancestors are ours, and adds them to ours.
func descendants(rest []process, ours map[int]bool) (pids []int) {
	for found := true; found; {
		found = false
		rest = slices.DeleteFunc(rest, func(p process) bool {
			if !ours[p.parent] {
				return false
			}
			found = true
			ours[p.pid] = true
			pids = append(pids, p.pid)
			return true
		})
	}

	return pids
}

// grouped reports whether the number of the group still means this tree. It does not if another process has it as its
// pid: the kernel reuses it only when the group is empty.
func (t Tree) grouped() bool {
	if t.Leader <= 0 {
		return false
	}
	start := startTime(t.Leader)
	return start == 0 || start == t.Start
}

// marks reports whether the environment of a process has the mark.
func (t Tree) marks(pid int) bool {
	if t.Mark == "" || pid == os.Getpid() {
		return false
	}

	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}

	for v := range bytes.SplitSeq(env, []byte{0}) {
		if string(v) == t.Mark {
			return true
		}
	}

	return false
}

// dead reports whether a zombie has ended. The first thread of a process may end before the others, and is a
// zombie then too.
func (p process) dead() bool {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)

	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// processes returns all processes of the host.
func processes() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()

	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}

	var all []process
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := read(pid); ok {
				all = append(all, p)
			}
		}
	}

	if len(all) == 0 {
		return nil, os.ErrNotExist
	}
	return all, nil
}

// read parses /proc/PID/stat. The name in field 2 may hold anything, brackets included.
func read(pid int) (process, bool) {
	var buf [1024]byte // by hand, because this runs for every process of the host
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return process{}, false
	}
	defer unix.Close(fd)

	n, err := unix.Read(fd, buf[:])
	if err != nil || n <= 0 {
		return process{}, false
	}

	s := string(buf[:n])
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 20 {
		return process{}, false
	}

	p := process{pid: pid, zombie: f[0] == "Z" || f[0] == "X"}
	p.parent, _ = strconv.Atoi(f[1])
	p.group, _ = strconv.Atoi(f[2])
	p.start, _ = strconv.ParseUint(f[19], 10, 64)

	return p, true
}

// startTime returns when a process started, or 0 if there is none.
func startTime(pid int) uint64 {
	p, _ := read(pid)
	return p.start
}

// living reports whether the process that started then still lives.
func living(pid int, start uint64) bool {
	p, ok := read(pid)
	return ok && p.start == start && !(p.zombie && p.dead())
}
