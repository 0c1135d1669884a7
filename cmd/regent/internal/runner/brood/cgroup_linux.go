package brood

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A process leaves its cgroup only by being moved, which needs a permission that most programs lack: neither a new session, nor a
// clean environment, nor the death of its parent gets it out. The kernel says when a cgroup is empty, and kills all of it at once.

// Confined returns the brood with a cgroup (version 2) of its own, below that of this process, for its command to be started in.
// An error says that this process may not have one, or that the system has none.
func (b Brood) Confined() (Brood, error) {
	parent, err := ownCgroup()
	if err != nil {
		return b, err
	}
	removeOld(parent)
	_, id, _ := strings.Cut(b.Mark, "=")
	dir := filepath.Join(parent, cgroupPrefix+id)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return b, fmt.Errorf("make a cgroup: %w", err)
	}
	with := b
	with.Cgroup = dir
	if _, err := populated(dir); err != nil {
		with.Remove()
		return b, fmt.Errorf("make a cgroup: %w", err)
	}
	return with, nil
}

// cgroupPrefix begins the names of all cgroups that Regent makes.
const cgroupPrefix = "regent-"

// oldAfter is how old a cgroup is that nobody is about to start a program in.
const oldAfter = 10 * time.Minute

// removeOld removes empty cgroups of processes that died before they could: the kernel removes none by itself.
func removeOld(parent string) {
	all, _ := filepath.Glob(filepath.Join(parent, cgroupPrefix+"*"))
	for _, dir := range all {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > oldAfter {
			_ = os.Remove(dir) // which the kernel refuses if it is not empty
		}
	}
}

// Confinable returns why programs cannot be started in cgroups of their own, or nil.
func Confinable() error {
	b, err := New().Confined()
	if err == nil {
		b.Remove()
	}
	return err
}

// ownCgroup returns the directory of the cgroup that this process is in.
func ownCgroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	path, found := "", false
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path, found = rest, true
		}
	}
	if !found || strings.HasPrefix(path, "/..") {
		return "", errors.New("this process is in no cgroup of version 2 that it can see")
	}
	root, mount, err := cgroupMount()
	if err != nil {
		return "", err
	}
	below, ok := strings.CutPrefix(path+"/", strings.TrimSuffix(root, "/")+"/")
	if !ok {
		return "", fmt.Errorf("the cgroup %s is not below %s, which is mounted at %s", path, root, mount)
	}
	return filepath.Join(mount, below), nil
}

// cgroupMount returns where cgroups of version 2 are mounted, and which one is at the top there.
func cgroupMount() (root, mount string, err error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// 30 23 0:26 ROOT MOUNTPOINT options … - TYPE source options; blanks in names are written \040.
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if len(fields) > 4 && strings.HasPrefix(after, "cgroup2 ") {
			return fields[3], strings.ReplaceAll(fields[4], `\040`, " "), nil
		}
	}
	return "", "", errors.New("no cgroups of version 2 are mounted")
}

// populated reports whether any process is in a cgroup or below it, zombies aside.
func populated(dir string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	if err != nil {
		return false, err
	}
	return strings.Contains(string(text), "populated 1"), nil
}

// confined returns the processes in the cgroup and below it, and whether there are any, even such as this process cannot see.
func (b Brood) confined() (pids []int, alive bool) {
	if b.Cgroup == "" {
		return nil, false
	}
	alive, err := populated(b.Cgroup)
	if err != nil {
		return nil, !errors.Is(err, fs.ErrNotExist) // nobody removes one that is not empty
	}
	for _, dir := range b.cgroups() {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
	}
	return pids, alive
}

// cgroups returns the brood's cgroup and all below it, those at the top first.
func (b Brood) cgroups() []string {
	var dirs []string
	_ = filepath.WalkDir(b.Cgroup, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil // what has gone meanwhile is not missed
	})
	return dirs
}

// killCgroup kills all in the cgroup in one step, so that none escapes by forking (Linux 5.14; else they are killed one by one,
// as often as it takes).
func (b Brood) killCgroup() {
	if b.Cgroup != "" {
		_ = os.WriteFile(filepath.Join(b.Cgroup, "cgroup.kill"), []byte("1"), 0)
	}
}

// Remove removes the cgroup, once nothing lives in it. The kernel may take a moment to let go of what has died.
func (b Brood) Remove() {
	if b.Cgroup == "" {
		return
	}
	for n := range 20 {
		dirs := b.cgroups()
		for i := len(dirs) - 1; i >= 0; i-- {
			_ = os.Remove(dirs[i])
		}
		if _, err := os.Stat(b.Cgroup); err != nil {
			return
		}
		time.Sleep(time.Duration(n) * time.Millisecond)
	}
}
