package config

import (
	"fmt"
	"io"
	"os"

	"github.com/regentd/regent/internal/regular"
)

const (
	maxFile  = 4 << 20 // bytes of a configuration file
	maxToken = 4 << 10 // bytes of a tokenFile
)

// ReadFile reads a configuration file of at most 4 MiB, as [ReadRegular] does.
func ReadFile(name string) ([]byte, error) { return ReadRegular(name, maxFile) }

// ReadRegular reads a file of at most limit bytes. It follows links. It returns an error for a pipe or a device, which
// could block or never end.
func ReadRegular(name string, limit int64) ([]byte, error) {
	f, err := regular.OpenLinked(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	return bounded(f, limit)
}

// bounded reads at most limit bytes.
func bounded(f *os.File, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", f.Name(), limit)
	}
	return data, err
}
