package sqlite

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// createFile makes an empty database file that its owner alone can read and write, whatever the umask. It leaves a file
// that is there as it is.
//
// mknod makes it without opening it: if another Store of this process has opened the file meanwhile, closing a descriptor
// of it would drop that one's locks.
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

// allowOwner gives the owner the rights that an unusual umask has taken.
func allowOwner(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() == fileMode {
		return err
	}
	return os.Chmod(path, fileMode)
}
