// Package slots checks the journals of workers against schedules: it finds slots of polls that no worker has completed,
// and slots that were completed twice. It knows nothing of leaders: however they change, each slot must be in all
// journals together once.
package slots

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/schedule"
)

// Report is the result of a check.
type Report struct {
	Polls   int      `json:"polls"`
	Slots   int      `json:"slots"`   // completed
	Retries int      `json:"retries"` // further attempts because a check had failed
	Holes   []string `json:"holes"`   // slots between the first and the last that no worker has completed
	Never   []string `json:"never"`   // polls with a schedule and no completed slot
	Again   int      `json:"again"`   // slots that ran again because a clock was set back
	Doubles []string `json:"doubles"` // slots that were completed more than once
	Cut     int      `json:"cut"`     // runs that ended with their worker, and must have been started again

	DelayP50Ms int64  `json:"delayP50Ms"` // from the due time of a slot until its run began
	DelayP99Ms int64  `json:"delayP99Ms"`
	DelayMaxMs int64  `json:"delayMaxMs"`
	Latest     string `json:"latest"` // the slot with the longest delay

	From time.Time `json:"from"` // the due time of the first slot
	To   time.Time `json:"to"`   // the due time of the last slot of the last leader
}

// OK reports whether each slot was completed once.
func (r *Report) OK() bool {
	return len(r.Holes) == 0 && len(r.Doubles) == 0 && len(r.Never) == 0 && r.Slots > 0
}

// line is the part of a line of a journal that counts.
type line struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	Epoch   uint64 `json:"epoch"`
	BeganMs int64  `json:"beganMs"`
	Data    struct {
		OK bool `json:"ok"`
	} `json:"data"`
}

// run is a completed run of a slot.
type run struct {
	schedule.Slot
	journal string
	ok      bool
	began   int64 // Unix milliseconds
	epoch   uint64
}

// runsByDue are the completed runs of a poll, by the due times of their slots.
type runsByDue map[int64][]run

// Checker collects journals.
type Checker struct {
	// Schedules are the schedules of polls by name. A poll without one is taken to be due at even intervals, the
	// shortest in the journals.
	Schedules map[string]schedule.Schedule
	// Settle is how long before the end of the journals a slot may be due and still run; 10 s if 0.
	Settle time.Duration

	polls map[string]runsByDue
	cut   int
	epoch uint64 // of the last leader
}

// Read adds the journal of a worker.
func (c *Checker) Read(name string, from io.Reader) error {
	if c.polls == nil {
		c.polls = map[string]runsByDue{}
	}

	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes('\n')
		var l line
		if json.Unmarshal(text, &l) == nil && l.ID != "" { // an incomplete last line is skipped
			c.add(name, l)
		}

		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read journal %s: %w", name, err)
		}
	}
}

// add adds a line of a journal.
func (c *Checker) add(journal string, l line) {
	id, ok := schedule.ParseSlot(l.ID)
	if !ok || id.Manual {
		return // a manual run, or no poll
	}
	if l.Outcome == "interrupted" {
		c.cut++
		return
	}

	if c.polls[id.Name] == nil {
		c.polls[id.Name] = runsByDue{}
	}
	one := run{
		Slot:    id,
		journal: journal,
		ok:      l.Outcome == "done" && l.Data.OK,
		began:   l.BeganMs,
		epoch:   l.Epoch,
	}
	c.polls[id.Name][id.Due] = append(c.polls[id.Name][id.Due], one)
}

// Check returns the report of all journals.
func (c *Checker) Check() *Report {
	r := &Report{Polls: len(c.polls), Cut: c.cut, Holes: []string{}, Doubles: []string{}, Never: []string{}}
	var delays []int64
	for name, dues := range c.polls {
		for due, runs := range dues {
			r.Slots++
			slices.SortFunc(runs, func(a, b run) int {
				return cmp.Or(cmp.Compare(a.Repeat, b.Repeat), cmp.Compare(a.Attempt, b.Attempt))
			})
			r.addRuns(slotID(name, due), runs)

			delay := runs[0].began - due
			delays = append(delays, delay)
			if delay > r.DelayMaxMs || r.Latest == "" {
				r.DelayMaxMs = delay
				r.Latest = slotID(name, due)
			}
		}
	}

	c.findHoles(r)
	slices.Sort(r.Holes)
	slices.Sort(r.Doubles)
	if len(delays) > 0 {
		slices.Sort(delays)
		r.DelayP50Ms = delays[len(delays)/2]
		r.DelayP99Ms = delays[len(delays)*99/100]
	}

	return r
}

// slotID returns the ID of a slot without its attempt.
func slotID(name string, due int64) string { return schedule.Slot{Name: name, Due: due}.String() }

// addRuns adds all completed runs of a slot, in the order of their attempts. A failed check may be followed by another
// run, and so may a run before a clock was set back. Any other second run is a double.
func (r *Report) addRuns(id string, runs []run) {
	for i, one := range runs[1:] {
		before := runs[i]
		switch {
		case one.Repeat != before.Repeat:
			r.Again++
		case before.ok || one.Attempt == before.Attempt:
			r.Doubles = append(r.Doubles, fmt.Sprintf("%s in %s and %s", id, before.journal, one.journal))
		default:
			r.Retries++
		}
	}
}
