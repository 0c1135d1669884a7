//go:build unix

package kubetest

import "syscall"

// Freeze stops the API server without ending it; its connections stay open.
func (s *Server) Freeze() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen API server go on.
func (s *Server) Thaw() error { return s.cmd.Process.Signal(syscall.SIGCONT) }
