package config

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

const (
	maxFile  = 4 << 20 // bytes of a configuration file
	maxToken = 4 << 10 // bytes of a tokenFile
)

// ReadFile reads a configuration file. It may be a pipe, as a shell makes one; more than 4 MiB are not read.
func ReadFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bounded(f, maxFile)
}

// ReadRegular reads a file of at most limit bytes. A pipe or a device, which could be waited for or read for ever, is an
// error.
func ReadRegular(name string, limit int64) ([]byte, error) {
	if err := regular(name); err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bounded(f, limit)
}

func bounded(f *os.File, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: it has more than %d bytes", f.Name(), limit)
	}
	return data, err
}

// regular returns an error if there is something at name that is not a file. Links are followed: secrets of Kubernetes are
// links.
func regular(name string) error {
	info, err := os.Stat(name)
	if err != nil || info.Mode().IsRegular() {
		return nil // whoever opens it finds out what is wrong
	}
	return fmt.Errorf("%s is %s: it must be a regular file", name, kind(info.Mode()))
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeDevice != 0:
		return "a device"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "no file"
}

// Exposed returns a warning if users who should not can read or write a file that holds a secret; else nothing. A group may
// read it: that is how a service that does not run as root is given one.
func Exposed(key, name string) string {
	info, err := os.Stat(name)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o027 == 0 {
		return ""
	}
	can := "read"
	if info.Mode().Perm()&0o022 != 0 {
		can = "write"
	}
	return fmt.Sprintf("%s %s has mode %04o: other users can %s it; chmod 600 it, or 640 for a group",
		key, name, info.Mode().Perm(), can)
}
