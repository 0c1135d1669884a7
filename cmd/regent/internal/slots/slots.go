// Package slots checks what workers have done against what was due: it reads their journals, and finds slots of polls that were left out, or completed
// twice. It knows nothing of leaders: whatever became of them, each slot must stand once in all journals together.
package slots

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/schedule"
)

// Report is what the journals show.
type Report struct {
	Polls   int      `json:"polls"`
	Slots   int      `json:"slots"`   // completed
	Retries int      `json:"retries"` // checks made again because the target had failed
	Holes   []string `json:"holes"`   // slots that nobody has completed, between the first and the last
	Never   []string `json:"never"`   // polls that have a schedule and have completed no slot of it
	Again   int      `json:"again"`   // slots that were run again because a clock went back
	Doubles []string `json:"doubles"` // slots that were completed more than once
	Cut     int      `json:"cut"`     // runs that ended with their worker: others must have taken their place

	DelayP50 time.Duration `json:"delayP50"` // from when a slot was due until its run began
	DelayP99 time.Duration `json:"delayP99"`
	DelayMax time.Duration `json:"delayMax"`
	Latest   string        `json:"latest"` // the slot with the longest delay

	From time.Time `json:"from"` // when the first slot was due
	To   time.Time `json:"to"`   // when the last one of the last leader was
}

// OK reports whether each slot was completed once.
func (r *Report) OK() bool {
	return len(r.Holes) == 0 && len(r.Doubles) == 0 && len(r.Never) == 0 && r.Slots > 0
}

// line is what counts in a journal.
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
	journal string
	ok      bool
	again   int64 // not 0 if it was run again, because a clock went back
	attempt int
	began   int64
	epoch   uint64
}

// Checker collects journals.
type Checker struct {
	// Schedules says when polls are due. One that is not in it is taken to be due at even intervals, the shortest that it shows.
	Schedules map[string]schedule.Schedule
	// Settle is how long before the end of the journals a slot may be due and still be under way; 10 s if 0.
	Settle time.Duration

	polls map[string]map[int64][]run
	cut   int
	epoch uint64 // of the last leader
}

// Read takes in a journal.
func (c *Checker) Read(name string, from io.Reader) error {
	if c.polls == nil {
		c.polls = map[string]map[int64][]run{}
	}
	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes('\n')
		var l line
		if json.Unmarshal(text, &l) == nil && l.ID != "" { // a line that was cut short says nothing
			c.take(name, l)
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read journal %s: %w", name, err)
		}
	}
}

func (c *Checker) take(journal string, l line) {
	name, rest, ok := strings.Cut(l.ID, "/")
	rest, attempt, _ := strings.Cut(rest, "#")
	rest, mark, _ := strings.Cut(rest, "~")
	due, err := strconv.ParseInt(rest, 10, 64)
	if !ok || err != nil {
		return // asked for by somebody, or no poll
	}
	if l.Outcome == "interrupted" {
		c.cut++
		return
	}
	if c.polls[name] == nil {
		c.polls[name] = map[int64][]run{}
	}
	n, _ := strconv.Atoi(attempt)
	again, _ := strconv.ParseInt(mark, 10, 64)
	one := run{journal: journal, ok: l.Outcome == "done" && l.Data.OK, again: again, attempt: n, began: l.BeganMs, epoch: l.Epoch}
	c.polls[name][due] = append(c.polls[name][due], one)
}

// Check says what the journals amount to.
func (c *Checker) Check() *Report {
	r := &Report{Polls: len(c.polls), Cut: c.cut, Holes: []string{}, Doubles: []string{}, Never: []string{}}
	var delays []time.Duration
	for name, dues := range c.polls {
		for due, runs := range dues {
			r.Slots++
			slices.SortFunc(runs, func(a, b run) int { return cmp.Or(cmp.Compare(a.again, b.again), cmp.Compare(a.attempt, b.attempt)) })
			c.judge(r, slot(name, due), runs)
			delay := time.Duration(runs[0].began-due) * time.Millisecond
			delays = append(delays, delay)
			if delay > r.DelayMax || r.Latest == "" {
				r.DelayMax, r.Latest = delay, slot(name, due)
			}
		}
	}
	c.findHoles(r)
	slices.Sort(r.Holes)
	slices.Sort(r.Doubles)
	if len(delays) > 0 {
		slices.Sort(delays)
		r.DelayP50, r.DelayP99 = delays[len(delays)/2], delays[len(delays)*99/100]
	}
	return r
}

// findHoles finds slots that were left out, and polls that never ran. Where the journals end is told by the slots of the
// last leader: not by the clock of any worker, and not by a former leader whose clock may have been ahead.
func (c *Checker) findHoles(r *Report) {
	first, last := c.span()
	if last == 0 {
		r.Never = append(r.Never, slices.Sorted(maps.Keys(c.Schedules))...)
		return
	}
	r.From, r.To = time.UnixMilli(first), time.UnixMilli(last)
	settle := c.Settle
	if settle == 0 {
		settle = 10 * time.Second
	}
	until := last - settle.Milliseconds()
	for name, dues := range c.polls {
		c.holes(r, name, dues, max(until, c.lastOf(dues)))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Schedules)) {
		if c.polls[name] != nil {
			continue
		}
		before := len(r.Holes)
		c.count(r, name, first, until, nil, c.follow(name, nil))
		if len(r.Holes) > before {
			r.Never = append(r.Never, name)
		}
	}
}

// newest is the epoch of the last leader that has had anything run.
func (c *Checker) newest() (epoch uint64) {
	for _, dues := range c.polls {
		for _, runs := range dues {
			for _, one := range runs {
				epoch = max(epoch, one.epoch)
			}
		}
	}
	return epoch
}

// span returns when the first slot was due, and the last one that the last leader had run.
func (c *Checker) span() (first, last int64) {
	c.epoch = c.newest()
	for _, dues := range c.polls {
		for due := range dues {
			if first == 0 || due < first {
				first = due
			}
		}
		last = max(last, c.lastOf(dues))
	}
	return first, last
}

// lastOf returns the last slot of a poll that the last leader had run; 0 if there is none.
func (c *Checker) lastOf(dues map[int64][]run) (last int64) {
	for due, runs := range dues {
		if slices.ContainsFunc(runs, func(one run) bool { return one.epoch == c.epoch }) {
			last = max(last, due)
		}
	}
	return last
}

func slot(name string, due int64) string { return name + "/" + strconv.FormatInt(due, 10) }

// judge looks at all completed runs of a slot, in the order of their attempts: a target that failed may be looked at again,
// anything else not, unless a clock went back in between.
func (c *Checker) judge(r *Report, id string, runs []run) {
	for i, one := range runs[1:] {
		before := runs[i]
		switch {
		case one.again != before.again:
			r.Again++
		case before.ok || one.attempt == before.attempt:
			r.Doubles = append(r.Doubles, fmt.Sprintf("%s in %s and %s", id, before.journal, one.journal))
		default:
			r.Retries++
		}
	}
}

// holes finds the slots that should be there: from a poll's first one on, until shortly before the journals end.
func (c *Checker) holes(r *Report, name string, dues map[int64][]run, until int64) {
	order := slices.Sorted(maps.Keys(dues))
	c.count(r, name, order[0], until, dues, c.follow(name, order))
}

// mostHoles is how many slots of a poll are named at most.
const mostHoles = 100_000

// count adds the slots after one, until a time, that are not there.
func (c *Checker) count(r *Report, name string, after, until int64, dues map[int64][]run, next func(int64) int64) {
	if next == nil {
		return
	}
	found := 0
	for due := next(after); due != 0 && due <= until && found < mostHoles; due = next(due) {
		if dues[due] == nil {
			r.Holes = append(r.Holes, slot(name, due))
			found++
		}
	}
}

// follow returns what gives the slot after another one; nil if that is not known.
func (c *Checker) follow(name string, order []int64) func(int64) int64 {
	if s := c.Schedules[name]; s != nil {
		return func(due int64) int64 {
			if t := s.Next(time.UnixMilli(due)); !t.IsZero() {
				return t.UnixMilli()
			}
			return 0
		}
	}
	step := int64(0)
	for i := 1; i < len(order); i++ {
		if d := order[i] - order[i-1]; step == 0 || d < step {
			step = d
		}
	}
	if step == 0 {
		return nil
	}
	return func(due int64) int64 { return due + step }
}
