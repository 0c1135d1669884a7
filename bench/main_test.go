package main

import (
	"fmt"
	"os"
	"testing"
)

// The test binary is also the process in which a scheduler is tried.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == cronCommand {
		if err := playCron(os.Args[2:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}

	os.Exit(m.Run())
}
