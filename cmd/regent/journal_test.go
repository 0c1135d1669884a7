package main

import (
	"strconv"
	"strings"
)

// journalLine is a line of the journal of a worker: a task that it has begun, or how the task has ended.
type journalLine struct {
	Begin   string
	ID      string
	Epoch   uint64
	Outcome string
}

// slot returns the poll, the due time and the attempt of a line.
func (l journalLine) slot() (poll string, due int64, attempt string) {
	poll, rest, _ := strings.Cut(l.Begin+l.ID, "/")
	rest, attempt, _ = strings.Cut(rest, "#")
	due, _ = strconv.ParseInt(rest, 10, 64)
	return poll, due, attempt
}
