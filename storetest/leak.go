package storetest

import (
	"context"
	"runtime"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

var leakChecks = []check{
	{"nothing_is_left_running", func(r *rig) {
		r.visit() // what is started only once, by the driver or a server in this process, does not count
		before := goroutines()
		const visits = 8
		for range visits {
			r.visit()
		}

		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()

		for end := time.After(r.timeout / 3); ; {
			more := grown(before, goroutines(), visits/2)
			if more == "" {
				return
			}

			select {
			case <-tick.C:
			case <-end:
				r.Fatalf("%d visits to the store left goroutines behind, %s", visits, more)
			}
		}
	}},
}

// visit opens a client, calls everything that could leave something running, and closes it.
func (r *rig) visit() {
	r.Helper()
	s, err := r.open()
	if err != nil {
		r.Fatalf("open a client: %v", err)
	}

	ctx, cancel := context.WithCancel(r.ctx)
	if w, ok := s.(driver.Notifier); ok {
		w.Subscribe(ctx, driver.Prefix("ends with its context"))
		w.Subscribe(r.ctx, driver.Prefix("ends with its client"))
	}

	for _, name := range []string{"a", "b", "c"} {
		l, err := s.Get(ctx, name)
		if err != nil {
			l = taken(name, 1)
		}
		r.swap(s, renewed(l))
	}

	for range s.List(ctx, "") {
		break
	}

	cancel()
	s.Get(ctx, "a")
	s.Swap(ctx, taken("a", 2))
	if err := s.Close(); err != nil {
		r.Errorf("close a client: %v", err)
	}
}

// goroutines counts goroutines by where they were started.
func goroutines() map[string]int {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}

	count := map[string]int{}
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if _, by, ok := strings.Cut(stack, "\ncreated by "); ok {
			creator, where, _ := strings.Cut(by, "\n")
			creator, _, _ = strings.Cut(creator, " in goroutine ")
			count[creator+" at "+strings.TrimSpace(where)]++
		}
	}

	return count
}

// grown returns a place that has started at least n more goroutines. Fewer may be a pool, or an idle connection.
func grown(before, after map[string]int, n int) string {
	for place, count := range after {
		if count-before[place] >= n {
			return "started by " + place
		}
	}
	return ""
}
