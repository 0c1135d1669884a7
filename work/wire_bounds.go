package work

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// maxRunning is how many tasks a worker can name in one answer as not ended.
const maxRunning = 1 << 18

// list is a part of a worker's answer, of at most maxBatch elements: no request asks for more. A longer one is refused while it is
// read: a few bytes on the wire can be a hundred in memory.
type list[T any] []T

// UnmarshalJSON reads the list, or returns an error if it is too long.
func (l *list[T]) UnmarshalJSON(b []byte) (err error) {
	*l, err = readList[T](b, maxBatch)
	return err
}

// names are the IDs of tasks in a worker's answer, at most maxRunning.
type names []string

// UnmarshalJSON reads the names, or returns an error if there are too many.
func (n *names) UnmarshalJSON(b []byte) (err error) {
	*n, err = readList[string](b, maxRunning)
	return err
}

// readList reads a JSON array, one element after the other, and no more than so many.
func readList[T any](b []byte, most int) ([]T, error) {
	in := json.NewDecoder(bytes.NewReader(b))
	begin, err := in.Token()
	if begin == nil || err != nil { // null
		return nil, err
	}
	if begin != json.Delim('[') {
		return nil, fmt.Errorf("%.20s: must be a list", b)
	}

	all := []T{}
	for in.More() {
		if len(all) == most {
			return nil, fmt.Errorf("a list has more than %d elements", most)
		}
		var element T
		if err := in.Decode(&element); err != nil {
			return nil, err
		}
		all = append(all, element)
	}
	return all, nil
}
