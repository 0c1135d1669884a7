//go:build !unix

package proctree

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// There are no process groups here.

// Started returns the tree with the pid of its command.
func (t Tree) Started(pid int) Tree {
	t.Leader = pid
	return t
}

// Stop does nothing.
func (Tree) Stop(time.Duration, func()) {}

// Kill returns errors.ErrUnsupported.
func (Tree) Kill(context.Context) error { return errors.ErrUnsupported }

// Signal returns errors.ErrUnsupported.
func (Tree) Signal(syscall.Signal) error { return errors.ErrUnsupported }

// Continue does nothing.
func (Tree) Continue() {}
