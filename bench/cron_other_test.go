//go:build !linux

package main

import (
	"errors"
	"io"
)

const cronCommand = "cron"

func playCron([]string, io.Writer) error { return errors.New("only on Linux") }
