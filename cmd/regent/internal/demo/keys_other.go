//go:build !linux

package demo

import (
	"context"
	"io"
	"os/exec"
)

// readKeys returns nothing: the demo has keys on Linux alone.
func readKeys(context.Context, Options) (keys <-chan byte, restore func()) { return nil, func() {} }

// endWithParent leaves a process as it is.
func endWithParent(*exec.Cmd) {}

// columns returns 0: the width of the terminal is not known.
func columns(io.Writer) int { return 0 }
