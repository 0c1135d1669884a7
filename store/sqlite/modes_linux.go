package sqlite

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// createFile creates an empty database file that only its owner can read and write, whatever the umask. It does not
// change an existing file.
//
// mknod creates it without opening it. If another Store of this process has opened the file meanwhile, closing a
// descriptor of it would drop that Store's locks.
func createFile(path string) error {
	switch err := unix.Mknod(path, unix.S_IFREG|fileMode, 0); {
	case err == nil:
		return allowOwner(path)
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS): // a seccomp filter forbids mknod
		return createByOpening(path)
	default:
		return &fs.PathError{Op: "create", Path: path, Err: err}
	}
}

// allowOwner restores the owner's permissions that an unusual umask has removed.
func allowOwner(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() == fileMode {
		return err
	}
	return os.Chmod(path, fileMode)
}
