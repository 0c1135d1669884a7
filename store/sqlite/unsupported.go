//go:build !linux

package sqlite

import (
	"errors"
	"io/fs"
	"os"
)

// Without inotify and pidfd there are no notifications between processes and no proof of death: see the package
// comment.

type watcher struct{}

func newWatcher(string, process) (*watcher, error) { return nil, errors.ErrUnsupported }

func (*watcher) wait() (bool, []string, error) { return false, nil, errors.ErrUnsupported }
func (*watcher) watch(string) bool             { return false }
func (*watcher) close()                        {}

type process struct{}

func self() (process, error)              { return process{}, errors.ErrUnsupported }
func parseProcess(string) (process, bool) { return process{}, false }
func (process) String() string            { return "" }
func (process) dead(process) bool         { return false }

func isFile(path string, file fs.FileInfo) (bool, error) {
	now, err := os.Stat(path)
	return err == nil && os.SameFile(now, file), err
}

func checkFileSystem(string) error             { return nil }
func createWakeFile(string, fs.FileInfo) error { return nil }
func touch(string)                             {}
func createFile(path string) error             { return createByOpening(path) }
