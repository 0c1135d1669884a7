//go:build unix && !linux

package runner

import "syscall"

// attributes returns the attributes of a program that runs in a process group of its own.
func attributes(string) (attr *syscall.SysProcAttr, done func(), err error) {
	return &syscall.SysProcAttr{Setpgid: true}, func() {}, nil
}

// stopped returns false: without waitid it would reap the child.
func stopped(int) bool { return false }
