package regent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/regentd/regent/internal/regular"
)

const (
	// rereadAfter is how long a fence goes by what it has read from its file.
	rereadAfter = time.Second
	// lockTimeout is how long a raise waits for another process that raises the same file.
	lockTimeout = 2 * time.Second
	// maxFenceFile is how much of a fence's file is read: more is not a fence's.
	maxFenceFile = 512
)

// readFence returns the token in a fence's file; the zero Token if there is no file.
func readFence(path string) (Token, error) {
	f, err := regular.Open(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Token{}, nil
	}
	if err != nil {
		return Token{}, fmt.Errorf("read fence: %w", err)
	}
	defer f.Close()

	b, err := io.ReadAll(io.LimitReader(f, maxFenceFile))
	if err != nil {
		return Token{}, fmt.Errorf("read fence: %w", err)
	}
	t, err := parseFence(string(b))
	if err != nil {
		return Token{}, regular.Unusable(fmt.Errorf("read fence %s: %w; "+
			"if the file is damaged, write the election's present epoch into it", path, err))
	}
	return t, nil
}

// parseFence reads "EPOCH TERM", or "EPOCH" alone if the term is not known.
func parseFence(line string) (Token, error) {
	fields := strings.Fields(line)
	if len(fields) < 1 || len(fields) > 2 {
		return Token{}, fmt.Errorf("it holds %.40q, not one line with the highest epoch seen and its term", line)
	}

	epoch, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		return Token{}, fmt.Errorf("it begins with %.40q, not with the highest epoch seen", fields[0])
	}
	t := Token{Epoch: epoch}
	if len(fields) == 2 {
		t.Term = fields[1]
	}

	if t == (Token{}) { // what a version before this wrote when nobody had led yet
		return t, nil
	}
	return t, t.Validate()
}

// writeFence replaces a fence's file.
func writeFence(path string, t Token) error {
	line := strconv.AppendUint(nil, t.Epoch, 10)
	if t.Term != "" {
		line = append(line, ' ')
		line = append(line, t.Term...)
	}
	if err := writeSynced(path, line); err != nil {
		return fmt.Errorf("write fence: %w", err)
	}
	return nil
}

// writeSynced replaces a file so that a crash leaves the old content or the new.
func writeSynced(path string, b []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()

	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}

	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
