//go:build unix && !linux

package runner

import "syscall"

// attributes has the program started in a process group of its own.
func attributes(string) (attr *syscall.SysProcAttr, done func(), err error) {
	return &syscall.SysProcAttr{Setpgid: true}, func() {}, nil
}

// stopped cannot be told here without taking the child's exit from whoever waits for it.
func stopped(int) bool { return false }
