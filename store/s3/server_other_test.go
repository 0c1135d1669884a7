//go:build !linux

package s3

import "os/exec"

func dieWithUs(*exec.Cmd) {}
