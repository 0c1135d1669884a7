// Package regular opens regular files only. It refuses pipes, devices, and symbolic links unless the caller allows
// them, and never blocks.
package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrUnusable is returned for a file that is unusable until somebody changes it: a retry does not help.
var ErrUnusable = errors.New("unusable file")

// Unusable wraps err so that it is also an [ErrUnusable]. The text stays the same.
func Unusable(err error) error { return &unusableError{err} }

type unusableError struct{ error }

func (e *unusableError) Unwrap() error        { return e.error }
func (e *unusableError) Is(target error) bool { return target == ErrUnusable }

// Open is [os.OpenFile] for a regular file. It does not follow a symbolic link in the last part of the path, never
// blocks, and returns an error that names the type of any other file. It does not check the directories above.
func Open(path string, flag int, perm fs.FileMode) (*os.File, error) {
	return open(path, flag|noFollow, perm, os.Lstat)
}

// OpenLinked opens a regular file for reading, like [Open], but follows symbolic links: Kubernetes secrets are links.
func OpenLinked(path string) (*os.File, error) { return open(path, os.O_RDONLY, 0, os.Stat) }

func open(path string, flag int, perm fs.FileMode, stat func(string) (fs.FileInfo, error)) (*os.File, error) {
	// Checked before, because opening a device may have an effect; and again below, because the file may have been
	// replaced.
	if info, err := stat(path); err == nil {
		if err := check(path, info); err != nil {
			return nil, err
		}
	}

	f, err := os.OpenFile(path, flag|noWait, perm)
	if err != nil {
		return nil, err
	}

	info, err := f.Stat()
	if err == nil {
		err = check(path, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}

	return f, nil
}

func check(path string, info fs.FileInfo) error {
	what := ""
	switch m := info.Mode(); {
	case m.IsRegular():
		return nil
	case m.IsDir():
		what = "a directory"
	case m&fs.ModeSymlink != 0:
		what = "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		what = "a named pipe"
	case m&fs.ModeSocket != 0:
		what = "a socket"
	default:
		what = "a device"
	}

	return Unusable(fmt.Errorf("%s is %s: it must be a regular file", path, what))
}
