package sqlite

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// createWakeFile creates the file with the owner and the mode of the database, as SQLite does with its side files.
func createWakeFile(path string, db fs.FileInfo) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()

	if st, ok := db.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		_ = f.Chown(int(st.Uid), int(st.Gid))
	}
	return f.Chmod(db.Mode().Perm())
}

// touch wakes every process that watches path. It writes nothing: the close is the event.
func touch(path string) {
	if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0); err == nil {
		unix.Close(fd)
	}
}

// maxWatched bounds how many processes a Store watches. The death of any other is found by polling.
const maxWatched = 256

// watcher waits for touches of one file and for the death of processes. The Go runtime polls its epoll instance, so
// waiting takes a goroutine but no thread.
type watcher struct {
	path string
	self process
	ep   *os.File
	raw  syscall.RawConn

	mu      sync.Mutex // guards the fields below, and the descriptors from being closed
	closed  bool
	epfd    int
	inotify int
	file    int              // inotify's watch descriptor for path; that of the database is not needed
	pidfds  map[int32]string // by pidfd: the process, as records name it
	pids    map[string]bool
}

func newWatcher(path string, self process) (w *watcher, err error) {
	w = &watcher{path: path, self: self, inotify: -1, pidfds: map[int32]string{}, pids: map[string]bool{}}
	if w.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}

	if err = unix.SetNonblock(w.epfd, true); err != nil { // otherwise os.NewFile would not poll it
		unix.Close(w.epfd)
		return nil, err
	}

	w.ep = os.NewFile(uintptr(w.epfd), "epoll")
	defer func() {
		if err != nil {
			w.close()
			w = nil
		}
	}()

	if w.raw, err = w.ep.SyscallConn(); err != nil {
		return w, err
	}

	if w.inotify, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		return w, err
	}

	w.mu.Lock()
	err = w.watchFileLocked()
	w.mu.Unlock()

	if err != nil {
		return w, err
	}
	return w, w.poll(w.inotify)
}

const watchMask = unix.IN_CLOSE_WRITE | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// watchFileLocked watches the wake file, and the database itself: a program that restores an older copy into it closes
// it. Processes of Regent close it seldom, when they start and when they end.
func (w *watcher) watchFileLocked() (err error) {
	database := strings.TrimSuffix(w.path, wakeSuffix)
	if db, err := os.Stat(database); err == nil {
		_ = createWakeFile(w.path, db)
	}

	if _, err := unix.InotifyAddWatch(w.inotify, database, unix.IN_CLOSE_WRITE); err != nil {
		return err
	}

	w.file, err = unix.InotifyAddWatch(w.inotify, w.path, watchMask)
	return err
}

func (w *watcher) poll(fd int) error {
	return unix.EpollCtl(w.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// watch makes wait report when that process dies, if the host supports it. It reports whether the process is dead
// already.
func (w *watcher) watch(writer string) (dead bool) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if writer == "" || w.closed || w.pids[writer] || len(w.pids) >= maxWatched {
		return false
	}

	p, ok := parseProcess(writer)
	if !ok || p == w.self || !p.visible(w.self) {
		return false
	}

	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return err == unix.ESRCH
	}

	// If the pid still belongs to p, the descriptor does too: it stays with the process even if the pid is reused.
	if start := startTime(p.pid); start != 0 && start != p.start {
		unix.Close(fd)
		return true
	}

	if err := w.poll(fd); err != nil {
		unix.Close(fd)
		return false
	}

	w.pidfds[int32(fd)], w.pids[writer] = writer, true
	return false
}

// wait returns when the file was touched or a watched process has died. It returns an error once the watcher is closed.
func (w *watcher) wait() (touched bool, died []string, err error) {
	var events [16]unix.EpollEvent
	var n int
	var waitErr error
	err = w.raw.Read(func(fd uintptr) bool {
		for {
			if n, waitErr = unix.EpollWait(int(fd), events[:], 0); waitErr != unix.EINTR {
				return n != 0 || waitErr != nil
			}
		}
	})

	if err = errors.Join(err, waitErr); err != nil {
		return false, nil, err
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	if w.closed {
		return false, nil, fs.ErrClosed
	}

	for _, e := range events[:n] {
		if int(e.Fd) == w.inotify {
			w.drainInotifyLocked()
			touched = true
		} else if writer, ok := w.pidfds[e.Fd]; ok {
			died = append(died, writer)
			delete(w.pidfds, e.Fd)
			delete(w.pids, writer)
			unix.Close(int(e.Fd))
		}
	}

	return touched, died, nil
}

// drainInotifyLocked reads all events, and watches the new file if the old one was removed.
func (w *watcher) drainInotifyLocked() {
	var buf [4096]byte
	for {
		n, err := unix.Read(w.inotify, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n < unix.SizeofInotifyEvent {
			return
		}

		for off := 0; off+unix.SizeofInotifyEvent <= n; {
			field := func(i int) uint32 { return binary.NativeEndian.Uint32(buf[off+4*i:]) } // wd, mask, cookie, len
			if field(1)&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0 && int(field(0)) == w.file {
				_ = w.watchFileLocked()
			}
			off += unix.SizeofInotifyEvent + int(field(3))
		}
	}
}

func (w *watcher) close() {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.closed {
		return
	}

	w.closed = true
	for fd := range w.pidfds {
		unix.Close(int(fd))
	}

	if w.inotify >= 0 {
		unix.Close(w.inotify)
	}

	w.ep.Close() // makes wait return
}
