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

	"github.com/regentd/regent/cmd/regent/internal/poll"
)

// Report is what the journals show.
type Report struct {
	Polls   int      `json:"polls"`
	Slots   int      `json:"slots"`   // completed
	Retries int      `json:"retries"` // checks made again because the target had failed
	Holes   []string `json:"holes"`   // slots that nobody has completed, between the first and the last
	Doubles []string `json:"doubles"` // slots that were completed more than once
	Cut     int      `json:"cut"`     // runs that ended with their worker: others must have taken their place

	DelayP50 time.Duration `json:"delayP50"` // from when a slot was due until its run began
	DelayP99 time.Duration `json:"delayP99"`
	DelayMax time.Duration `json:"delayMax"`
	Latest   string        `json:"latest"` // the slot with the longest delay

	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// OK reports whether each slot was completed once.
func (r *Report) OK() bool { return len(r.Holes) == 0 && len(r.Doubles) == 0 && r.Slots > 0 }

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
	attempt int
	began   int64
}

// Checker collects journals.
type Checker struct {
	// Schedules says when polls are due. One that is not in it is taken to be due at even intervals, the shortest that it shows.
	Schedules map[string]poll.Schedule
	// Settle is how long before the end of the journals a slot may be due and still be under way; 10 s if 0.
	Settle time.Duration

	polls map[string]map[int64][]run
	cut   int
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
	c.polls[name][due] = append(c.polls[name][due], run{journal, l.Outcome == "done" && l.Data.OK, n, l.BeganMs})
}

// Check says what the journals amount to.
func (c *Checker) Check() *Report {
	r := &Report{Polls: len(c.polls), Cut: c.cut, Holes: []string{}, Doubles: []string{}}
	var delays []time.Duration
	var first, last int64
	for name, dues := range c.polls {
		for due, runs := range dues {
			r.Slots++
			slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.attempt, b.attempt) })
			c.judge(r, slot(name, due), runs)
			for _, run := range runs {
				if first == 0 || run.began < first {
					first = run.began
				}
				last = max(last, run.began)
			}
			delay := time.Duration(runs[0].began-due) * time.Millisecond
			delays = append(delays, delay)
			if delay > r.DelayMax || r.Latest == "" {
				r.DelayMax, r.Latest = delay, slot(name, due)
			}
		}
	}
	settle := c.Settle
	if settle == 0 {
		settle = 10 * time.Second
	}
	for name, dues := range c.polls {
		c.holes(r, name, dues, last-settle.Milliseconds())
	}
	slices.Sort(r.Holes)
	slices.Sort(r.Doubles)
	if len(delays) > 0 {
		slices.Sort(delays)
		r.DelayP50, r.DelayP99 = delays[len(delays)/2], delays[len(delays)*99/100]
		r.From, r.To = time.UnixMilli(first), time.UnixMilli(last)
	}
	return r
}

func slot(name string, due int64) string { return name + "/" + strconv.FormatInt(due, 10) }

// judge looks at all completed runs of a slot, in the order of their attempts: a target that failed may be looked at again, anything else not.
func (c *Checker) judge(r *Report, id string, runs []run) {
	for i, one := range runs[1:] {
		before := runs[i]
		if before.ok || one.attempt == before.attempt {
			r.Doubles = append(r.Doubles, fmt.Sprintf("%s in %s and %s", id, before.journal, one.journal))
			continue
		}
		r.Retries++
	}
}

// holes finds the slots that should be there: from a poll's first one on, until shortly before the journals end.
func (c *Checker) holes(r *Report, name string, dues map[int64][]run, until int64) {
	order := slices.Sorted(maps.Keys(dues))
	next := c.follow(name, order)
	if next == nil {
		return
	}
	end := max(order[len(order)-1], until)
	for due := next(order[0]); due != 0 && due <= end; due = next(due) {
		if dues[due] == nil {
			r.Holes = append(r.Holes, slot(name, due))
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
