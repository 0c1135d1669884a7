package config

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/regentd/regent/internal/regular"
)

const (
	maxFile  = 4 << 20 // bytes of a configuration file
	maxToken = 4 << 10 // bytes of a tokenFile
)

// ReadFile reads a configuration file of at most 4 MiB, as [ReadRegular] does.
func ReadFile(name string) ([]byte, error) { return ReadRegular(name, maxFile) }

// ReadRegular reads a file of at most limit bytes. A pipe or a device, which could be waited for or read for ever, is an
// error. Links are followed.
func ReadRegular(name string, limit int64) ([]byte, error) {
	f, err := regular.OpenLinked(name)
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

// Exposed returns a warning if users who should not can read or write a file that holds a secret; else nothing. A group may
// read it: that is how a service that does not run as root is given one.
func Exposed(key, name string) string {
	info, err := os.Stat(name)
	if err != nil || runtime.GOOS == "windows" {
		return ""
	}
	if owner := regular.Stranger(info); owner != "" {
		return fmt.Sprintf("%s %s belongs to %s, who can read and change it: chown it to the user of the node or to root",
			key, name, owner)
	}

	can := "read"
	switch {
	case info.Mode().Perm()&0o027 == 0:
		return ""
	case info.Mode().Perm()&0o022 != 0:
		can = "write"
	}
	return fmt.Sprintf("%s %s has mode %04o: other users can %s it; chmod 600 it, or 640 for a group",
		key, name, info.Mode().Perm(), can)
}
