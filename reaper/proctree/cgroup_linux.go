package proctree

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

// A process leaves its cgroup only if it is moved, which needs a permission that most programs lack. A new session, a
// clean environment or the death of its parent do not move it. The kernel reports when a cgroup is empty, and kills all
// of it in one step.

// Confined returns the tree with a cgroup (version 2) of its own, below that of this process. Start the command in it
// (syscall.SysProcAttr.UseCgroupFD). It returns an error if this process may not create a cgroup, or if the system has
// none.
func (t Tree) Confined() (Tree, error) {
	parent, err := ownCgroup()
	if err != nil {
		return t, err
	}

	removeOld(parent)
	_, id, _ := strings.Cut(t.Mark, "=")
	dir := filepath.Join(parent, cgroupPrefix+id)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return t, fmt.Errorf("make a cgroup: %w", err)
	}

	with := t
	with.Cgroup = dir
	if _, err := populated(dir); err != nil {
		with.Remove()
		return t, fmt.Errorf("make a cgroup: %w", err)
	}

	return with, nil
}

// cgroupPrefix is the prefix of the names of all cgroups that Regent creates.
const cgroupPrefix = "regent-"

// oldAfter is the age from which an empty cgroup is certainly not about to be used.
const oldAfter = 10 * time.Minute

// removeOld removes empty cgroups of processes that died before they removed them: the kernel removes none by itself.
func removeOld(parent string) {
	all, _ := filepath.Glob(filepath.Join(parent, cgroupPrefix+"*"))
	for _, dir := range all {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > oldAfter {
			_ = os.Remove(dir) // which the kernel refuses if it is not empty
		}
	}
}

// Confinable returns nil if commands can be started in cgroups of their own, and otherwise the reason why they cannot.
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

// confined returns the processes in the cgroup and below it. alive reports whether there are any, including processes
// that this one cannot see.
func (t Tree) confined() (pids []int, alive bool) {
	if t.Cgroup == "" {
		return nil, false
	}

	alive, err := populated(t.Cgroup)
	if err != nil {
		return nil, !errors.Is(err, fs.ErrNotExist) // nobody removes one that is not empty
	}

	for _, dir := range t.cgroups() {
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

// cgroups returns the tree's cgroup and all below it, parents first.
func (t Tree) cgroups() []string {
	var dirs []string
	_ = filepath.WalkDir(t.Cgroup, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil // what has gone meanwhile is not missed
	})
	return dirs
}

// killCgroup kills all processes of the cgroup in one step, so that none escapes by forking. It needs Linux 5.14. On
// older kernels the caller kills them one by one, until none is left.
func (t Tree) killCgroup() {
	if t.Cgroup != "" {
		_ = os.WriteFile(filepath.Join(t.Cgroup, "cgroup.kill"), []byte("1"), 0)
	}
}

// Remove removes the cgroup, once nothing lives in it. The kernel may take a moment after the last process has ended.
func (t Tree) Remove() {
	if t.Cgroup == "" {
		return
	}

	for n := range 20 {
		dirs := t.cgroups()
		for i := len(dirs) - 1; i >= 0; i-- {
			_ = os.Remove(dirs[i])
		}
		if _, err := os.Stat(t.Cgroup); err != nil {
			return
		}
		time.Sleep(time.Duration(n) * time.Millisecond)
	}
}
