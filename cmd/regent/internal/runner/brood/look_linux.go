package brood

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is a line of /proc.
type process struct {
	pid, parent, group int
	start              uint64
	zombie             bool
}

// look returns the living processes of the brood that are not in its group, and whether anything of it lives at all.
func (b Brood) look() (strays []int, alive bool) {
	grouped := b.grouped()
	strays, held := b.confined()
	all, err := processes()
	if err != nil { // no /proc: the group is all that can be asked for
		return strays, held || grouped && syscall.Kill(-b.Leader, 0) != syscall.ESRCH
	}
	alive = held
	ours := map[int]bool{}
	for _, pid := range strays {
		ours[pid] = true
	}
	rest := all[:0]
	for _, p := range all {
		switch {
		case p.zombie && p.dead(), ours[p.pid]:
		case grouped && p.group == b.Leader:
			ours[p.pid], alive = true, true
		case b.Adopter != 0 && p.parent == b.Adopter && p.pid != os.Getpid():
			ours[p.pid] = true
			strays = append(strays, p.pid)
		case p.start >= b.Start && b.marks(p.pid): // whatever began before the command is none of its children
			ours[p.pid] = true
			strays = append(strays, p.pid)
		case p.start >= b.Start:
			rest = append(rest, p)
		}
	}
	for found := true; found; {
		found = false
		rest = slices.DeleteFunc(rest, func(p process) bool {
			if !ours[p.parent] {
				return false
			}
			ours[p.pid], found = true, true
			strays = append(strays, p.pid)
			return true
		})
	}
	if !alive && grouped && syscall.Kill(-b.Leader, 0) == syscall.EPERM {
		alive = true // somebody of another user, whom /proc may hide
	}
	return strays, alive || len(strays) > 0
}

// grouped reports whether the number of the group still means this brood: not if another process has it as its pid by now, since that is
// given out only once the group is empty.
func (b Brood) grouped() bool {
	if b.Leader <= 0 {
		return false
	}
	start := startTime(b.Leader)
	return start == 0 || start == b.Start
}

// marks reports whether a process's environment has the mark.
func (b Brood) marks(pid int) bool {
	if b.Mark == "" || pid == os.Getpid() {
		return false
	}
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if string(v) == b.Mark {
			return true
		}
	}
	return false
}

// dead tells a process that is gone but for its parent's wait from one whose first thread has ended before the others.
func (p process) dead() bool {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

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
	var buf [1024]byte // by hand, since this is done for every process of the host
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

// living reports whether the process that started then is still there, and not only waited for.
func living(pid int, start uint64) bool {
	p, ok := read(pid)
	return ok && p.start == start && !(p.zombie && p.dead())
}
