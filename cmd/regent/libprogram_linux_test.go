package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// libprogram is the program that uses the library, built once.
var libprogram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "regent-test-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "libprogram")
	out, err := exec.Command("go", "build", "-o", bin, "./internal/libprogram").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})
