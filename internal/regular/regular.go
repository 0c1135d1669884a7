// Package regular opens files that must be files: no pipe that is waited for, no device, and no link that leads elsewhere
// unless the caller allows links.
package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrUnusable says that a file stays unusable until somebody changes it: to try again later does not help.
var ErrUnusable = errors.New("unusable file")

// Unusable makes an [ErrUnusable] of an error, in the same words.
func Unusable(err error) error { return &unusableError{err} }

type unusableError struct{ error }

func (e *unusableError) Unwrap() error        { return e.error }
func (e *unusableError) Is(target error) bool { return target == ErrUnusable }

// Open is [os.OpenFile] for a regular file. It follows no link in the last part of the path, never waits, and returns an
// error that names what is there instead. The directories above are their owner's business.
func Open(path string, flag int, perm fs.FileMode) (*os.File, error) {
	return open(path, flag|noFollow, perm, os.Lstat)
}

// OpenLinked opens a regular file to read it, as [Open] does, but follows links: secrets of Kubernetes are links.
func OpenLinked(path string) (*os.File, error) { return open(path, os.O_RDONLY, 0, os.Stat) }

func open(path string, flag int, perm fs.FileMode, stat func(string) (fs.FileInfo, error)) (*os.File, error) {
	// Looked at first, since to open a device may do something; and again below, since it may have been replaced.
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
