// Package mutant compiles code with deliberate faults, so that a test can show that other tests find them. A fault is
// a list of edits of source files. The edited copies replace the originals by the -overlay flag of the go command,
// and the originals stay as they are.
package mutant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Edit replaces a text that stands exactly once in a file.
type Edit struct {
	File string // its path from the root of the repository
	Old  string
	New  string
}

// Check returns an error unless the text that each edit replaces stands exactly once in its file, after the edits
// before it.
func Check(root string, edits ...Edit) error {
	_, err := apply(root, edits)
	return err
}

// Overlay writes the edited copies to a directory, and returns the file for the -overlay flag.
func Overlay(root, dir string, edits ...Edit) (string, error) {
	edited, err := apply(root, edits)
	if err != nil {
		return "", err
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return "", err
	}

	list := struct{ Replace map[string]string }{map[string]string{}}
	for file, source := range edited {
		path := filepath.Join(dir, strconv.Itoa(len(list.Replace))+"-"+filepath.Base(file))
		if err := os.WriteFile(path, source, 0o600); err != nil {
			return "", err
		}
		list.Replace[filepath.Join(root, file)] = path
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// apply returns the edited files.
func apply(root string, edits []Edit) (map[string][]byte, error) {
	edited := map[string][]byte{}
	for _, e := range edits {
		source, ok := edited[e.File]
		if !ok {
			var err error
			if source, err = os.ReadFile(filepath.Join(root, e.File)); err != nil {
				return nil, err
			}
		}
		if n := bytes.Count(source, []byte(e.Old)); n != 1 {
			return nil,
				fmt.Errorf("%s holds the text that a mutant replaces %d times, and not once: adapt the mutant\n%s",
					e.File, n, e.Old)
		}
		edited[e.File] = bytes.Replace(source, []byte(e.Old), []byte(e.New), 1)
	}
	return edited, nil
}
