package work

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// maxRunning is the most running tasks in one report.
const maxRunning = 1 << 18

// boundedList is a list in a worker's answer, of at most maxBatch elements: no request asks for more. A longer list is
// refused while it is read, because a few bytes of JSON can be a hundred in memory.
type boundedList[T any] []T

// UnmarshalJSON reads the list, or returns an error if it is too long.
func (l *boundedList[T]) UnmarshalJSON(b []byte) (err error) {
	*l, err = readList[T](b, maxBatch)
	return err
}

// taskIDs are the IDs of tasks in a worker's answer, at most maxRunning.
type taskIDs []string

// UnmarshalJSON reads the IDs, or returns an error if there are too many.
func (n *taskIDs) UnmarshalJSON(b []byte) (err error) {
	*n, err = readList[string](b, maxRunning)
	return err
}

// readList reads a JSON array one element at a time, and fails if it has more than most.
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
