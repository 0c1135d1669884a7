//go:build unix

package natstest

import "syscall"

// Freeze stops the server without ending it; its connections stay open.
func (s *Server) Freeze() error { return s.process.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw() error { return s.process.Process.Signal(syscall.SIGCONT) }
