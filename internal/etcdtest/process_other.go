//go:build !linux

package etcdtest

import "os/exec"

// DieWithUs does nothing here: a server outlives tests that die without stopping it.
func DieWithUs(*exec.Cmd) {}
