//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// writableDir returns an error if this user cannot create files in a directory.
func writableDir(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return &os.PathError{Op: "access", Path: dir, Err: err}
	}
	return nil
}
