package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// fileMode is the mode of a new database. SQLite gives -wal and -shm the mode of the database, and so does
// createWakeFile for -wake. A user who can read a file can also lock it: a read lock on one byte of -shm keeps the
// leader from renewing.
const fileMode = 0o600

// createByOpening is createFile for systems without another way to create a file.
func createByOpening(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(fileMode), f.Close())
}

// exposedFiles returns warnings about files of the database that other users can read or write, or own: one line each.
func exposedFiles(path string) []string {
	if runtime.GOOS == "windows" { // modes mean nothing there
		return nil
	}

	var found []string
	for _, suffix := range []string{"", "-wal", "-shm", "-journal", wakeSuffix} {
		info, err := os.Stat(path + suffix)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			found = append(found, fmt.Sprintf(
				"%s has mode %04o: other users can read the secrets of polls, and hold locks "+
					"that depose the leader; stop every node that uses it, and chmod 600 it", path+suffix,
				info.Mode().Perm()))
		}
		if err == nil && stranger(info) != "" {
			found = append(found, fmt.Sprintf(
				"%s belongs to %s, who can read and change it in spite of its mode: stop every node "+
					"that uses it, and chown it to their user", path+suffix, stranger(info)))
		}
	}

	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		found = append(found, fmt.Sprintf("directory %s has mode %04o: other users can replace the database in it; "+
			"chmod go-w it", dir, info.Mode().Perm()))
	}

	if info, err := os.Stat(dir); err == nil && stranger(info) != "" {
		found = append(found, fmt.Sprintf(
			"directory %s belongs to %s, who can replace the database in it: chown it to the "+
				"user of the nodes", dir, stranger(info)))
	}

	return found
}

// Warnings returns what Open found about the database's files that endangers the election: one line each.
func (s *Store) Warnings() []string { return s.warnings }
