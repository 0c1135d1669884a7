package demo

import (
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// readKeys returns the keys that are pressed on a terminal, without waiting for the end of a line. restore sets the
// terminal back.
func readKeys(ctx context.Context, opts Options) (keys <-chan byte, restore func()) {
	restore = func() {}
	if !opts.Terminal || opts.In == nil {
		return nil, restore
	}
	fd := int(opts.In.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, restore
	}

	now := *before
	now.Lflag &^= unix.ICANON | unix.ECHO // signals stay: Ctrl-C ends the demo
	if unix.IoctlSetTermios(fd, unix.TCSETS, &now) != nil {
		return nil, restore
	}

	pressed := make(chan byte)
	go func() {
		buf := make([]byte, 1)
		for {
			if n, err := opts.In.Read(buf); n != 1 || err != nil {
				return
			}
			select {
			case pressed <- buf[0]:
			case <-ctx.Done():
				return
			}
		}
	}()
	return pressed, func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }
}

// columns returns how wide a terminal is; 0 if that is not known.
func columns(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// endWithParent makes a process end if the demo is killed.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true} // Ctrl-C is for the demo alone
}
