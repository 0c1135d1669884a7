package main

import (
	"strconv"
	"strings"
)

// journalLine is a line of a worker's journal: a task that it has taken, or what became of it.
type journalLine struct {
	Begin   string
	ID      string
	Epoch   uint64
	Outcome string
}

// slot is the poll and the due time of a line, and which attempt it is.
func (l journalLine) slot() (poll string, due int64, attempt string) {
	poll, rest, _ := strings.Cut(l.Begin+l.ID, "/")
	rest, attempt, _ = strings.Cut(rest, "#")
	due, _ = strconv.ParseInt(rest, 10, 64)
	return poll, due, attempt
}
