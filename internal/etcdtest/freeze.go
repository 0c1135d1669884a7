//go:build unix

package etcdtest

import "syscall"

// Freeze stops the member without ending it; its connections stay open.
func (m *Member) Freeze() error { return m.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen member go on.
func (m *Member) Thaw() error { return m.cmd.Process.Signal(syscall.SIGCONT) }
