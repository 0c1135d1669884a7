package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

var wakeChecks = []check{
	{"a_change_of_hands_wakes", func(r *rig) {
		a, b := r.client(), r.client()
		l := r.swap(a, seat("seat", 1))
		hints := r.watch(a, r.ctx, "")
		r.settle(hints, func() { l = r.swap(a, handed(l, "a")) })
		for _, from := range []struct {
			who string
			s   driver.Store
		}{{"the same client", a}, {"another client", b}} {
			changes := []struct {
				what   string
				change func(driver.Record) driver.Record
			}{
				{"a claim", func(l driver.Record) driver.Record { return handed(l, "b") }},
				{"a handoff request", func(l driver.Record) driver.Record { l.Next = "c"; return l }},
				{"a pause", func(l driver.Record) driver.Record { l.Paused = true; return l }},
				{"a resume", func(l driver.Record) driver.Record { l.Paused = false; return l }},
				{"a new term of the same holder", func(l driver.Record) driver.Record { l.Epoch++; l.Nonce++; return l }},
				{"a release", released},
			}
			for _, c := range changes {
				r.hinted(hints, c.what+" by "+from.who, func() { l = r.swap(from.s, c.change(l)) })
			}
			r.hinted(hints, "a creation by "+from.who, func() { r.swap(from.s, seat("new for "+from.who, 1)) })
		}
	}},
	{"renewals_wake_nobody", func(r *rig) {
		a, b := r.client(), r.client()
		l := r.swap(a, seat("seat", 1))
		hints := r.watch(b, r.ctx, "")
		r.settle(hints, func() { l = r.swap(a, handed(l, "a")) })
		const renewals = 20
		woken := 0
		for i := range renewals {
			l.Data = fmt.Append(nil, "checkpoint ", i)
			l = r.swap(a, renewed(l))
			if r.received(hints, 20*time.Millisecond) {
				woken++
			}
		}
		if woken >= renewals/2 {
			r.Errorf("%d renewals woke %d times", renewals, woken)
		}
		r.hinted(hints, "a claim after renewals", func() { l = r.swap(a, handed(l, "b")) })
	}},
	{"a_hint_reaches_every_prefix_that_covers_it", func(r *rig) {
		a, b := r.client(), r.client()
		const name = `team_50%/Seat [a]*\é`
		l := r.swap(a, seat(name, 1))
		for _, prefix := range []string{"", "t", "team_50%/", `team_50%/Seat [a]*\`, name} {
			if !strings.HasPrefix(name, prefix) {
				r.Fatalf("the suite's prefix %q is none of %q", prefix, name)
			}
			hints := r.watch(b, r.ctx, prefix)
			r.settle(hints, func() { l = r.swap(a, handed(l, "b")) })
			r.hinted(hints, fmt.Sprintf("a claim of %q below %q", name, prefix), func() { l = r.swap(a, handed(l, "c")) })
		}
	}},
	{"a_record_that_a_hint_brings_is_the_change_and_all_of_it", func(r *rig) {
		a, b := r.client(), r.client()
		one, two := r.swap(a, seat("seat 1", 1)), r.swap(a, seat("seat 2", 1))
		hints := r.watch(b, r.ctx, "seat")
		r.settle(hints, func() { one = r.swap(a, handed(one, "a")) })
		for range 3 {
			r.told(hints, b, "seat 1", func() { one = r.swap(a, handed(one, "b")) })
			r.told(hints, b, "seat 1", func() { one = r.swap(a, released(one)) })
		}
		// Of two changes no record tells. A third one shows that both have come.
		third := r.swap(a, seat("third", 1))
		after := r.watch(b, r.ctx, "third")
		r.settle(after, func() { third = r.swap(a, handed(third, "a")) })
		one, two = r.swap(a, handed(one, "c")), r.swap(a, handed(two, "c"))
		r.calm(hints)
		r.hinted(after, "two releases and a claim", func() {
			r.swap(a, released(one))
			r.swap(a, released(two))
			r.swap(a, handed(third, "b"))
		})
		select {
		case l := <-hints:
			if l.Name != "" && !r.received(hints, r.patience) {
				r.Errorf("two registers have changed hands, and a hint brings %q as if it were all", l.Name)
			}
		case <-time.After(r.patience):
			r.Errorf("no hint after two releases")
		}
	}},
	{"a_hint_names_what_is_below_its_prefix_and_was_written", func(r *rig) {
		const prefix = "seat/"
		a, b := r.client(), r.client()
		w := written{}
		one, two := w.swap(r, a, seat("seat/1", 1)), w.swap(r, a, seat("seat/2", 1))
		other := w.swap(r, a, seat("seat", 1))
		hints := r.watch(b, r.ctx, prefix)
		r.settle(hints, func() { one = w.swap(r, a, handed(one, "a")) })
		changes := []func(){
			func() { one = w.swap(r, a, handed(one, "b")) },
			func() { other = w.swap(r, a, handed(other, "b")) },
			func() { two = w.swap(r, b, handed(two, "b")) },
			func() { one = w.swap(r, a, released(one)) },
			func() { other = w.swap(r, b, released(other)) },
			func() { two = w.swap(r, a, renewed(two)) },
		}
		for i := range 60 {
			changes[i%len(changes)]()
			for end := time.After(2 * time.Millisecond); end != nil; {
				select {
				case l := <-hints:
					if wrong := w.check(l, prefix); wrong != "" {
						r.Fatalf("a hint for what is below %q %s", prefix, wrong)
					}
				case <-end:
					end = nil
				}
			}
		}
		last := time.After(r.patience)
		two = w.swap(r, a, handed(two, "c")) // so that a store whose hints are slow shows one as well
		select {
		case l := <-hints:
			if wrong := w.check(l, prefix); wrong != "" {
				r.Errorf("a hint for what is below %q %s", prefix, wrong)
			}
		case <-last:
			r.Errorf("no hint after a claim")
		}
	}},
	{"a_wake_ends_with_its_context_alone", func(r *rig) {
		s := r.client()
		l := r.swap(s, seat("seat", 1))
		stays := r.watch(s, r.ctx, "")
		r.settle(stays, func() { l = r.swap(s, handed(l, "a")) })
		ended := make([]<-chan driver.Record, 10)
		for i := range ended {
			ctx, cancel := context.WithCancel(r.ctx)
			ended[i] = r.watch(s, ctx, "")
			cancel()
		}
		before, cancel := context.WithCancel(r.ctx)
		cancel()
		ended = append(ended, r.watch(s, before, ""))
		for _, hints := range ended {
			r.calm(hints)
		}
		r.hinted(stays, "a claim after other watchers ended", func() { l = r.swap(s, handed(l, "b")) })
	}},
	{"hints_that_nobody_takes_hold_up_nobody", func(r *rig) {
		s := r.client()
		l := r.swap(s, seat("seat", 1))
		idle, hints := r.watch(s, r.ctx, ""), r.watch(s, r.ctx, "")
		r.settle(hints, func() { l = r.swap(s, handed(l, "a")) })
		r.soon("claims with an idle watcher", func() {
			for range 200 {
				l = r.swap(s, handed(l, "b"))
			}
		})
		r.hinted(hints, "a claim with an idle watcher", func() { l = r.swap(s, handed(l, "c")) })
		if cap(idle) > 1 {
			r.Errorf("a channel of hints holds %d, want 1: hints are merged", cap(idle))
		}
	}},
}

// watch asks for hints, or skips the test.
func (r *rig) watch(s driver.Store, ctx context.Context, prefix string) <-chan driver.Record {
	r.Helper()
	w, ok := s.(driver.Waker)
	if !ok {
		r.Skip("the store is no Waker")
	}
	hints := w.Wake(ctx, prefix)
	if hints == nil {
		r.Fatalf("Wake returned no channel")
	}
	return hints
}

// received waits for a hint. A closed channel is a failure: it would wake its reader for ever.
func (r *rig) received(hints <-chan driver.Record, within time.Duration) bool {
	r.Helper()
	select {
	case _, open := <-hints:
		if !open {
			r.Fatalf("the channel of hints was closed")
		}
		return true
	case <-time.After(within):
		return false
	}
}

// told changes a register and wants a hint of that: a bare one, one with its name, or its record as
// it is now. A hint of an earlier change may still come before.
func (r *rig) told(hints <-chan driver.Record, s driver.Store, name string, change func()) {
	r.Helper()
	r.calm(hints)
	change()
	wrong := "no hint came"
	for limit := time.After(r.patience); ; {
		select {
		case l := <-hints:
			if l.Name == "" && l.Rev == "" || l.Name == name && l.Rev == "" {
				return
			}
			shown := r.get(s, name)
			d := differ(shown, l)
			if d == "" && l.Rev == shown.Rev {
				return
			}
			wrong = fmt.Sprintf("a hint brings %q at revision %q, and %q shows %q: %s", l.Name, l.Rev, name, shown.Rev, d)
		case <-limit:
			r.Errorf("%s", wrong)
			return
		}
	}
}

// written is what a test has written, by register and revision.
type written map[string]map[string]driver.Record

// swap writes a record, and remembers it.
func (w written) swap(r *rig, s driver.Store, l driver.Record) driver.Record {
	r.Helper()
	l = r.swap(s, l)
	if w[l.Name] == nil {
		w[l.Name] = map[string]driver.Record{}
	}
	w[l.Name][l.Rev] = l
	return l
}

// check says what is wrong with a hint for prefix, or nothing. Of its three forms the bare one is
// always right. One that names a register names one below prefix, and one with a revision is the
// record that was written at that revision.
func (w written) check(l driver.Record, prefix string) string {
	was, ever := w[l.Name][l.Rev]
	switch {
	case l.Name == "" && l.Rev == "":
		return differ(driver.Record{}, l)
	case !strings.HasPrefix(l.Name, prefix) || w[l.Name] == nil:
		return fmt.Sprintf("names %q", l.Name)
	case l.Rev == "":
		return differ(driver.Record{Name: l.Name}, l)
	case !ever:
		return fmt.Sprintf("brings %q at revision %q, which it never had", l.Name, l.Rev)
	}
	return differ(was, l)
}

// calm lets hints pass until none comes any more.
func (r *rig) calm(hints <-chan driver.Record) {
	r.Helper()
	for n := 0; r.received(hints, 30*time.Millisecond); n++ {
		if n > 100 {
			r.Fatalf("hints come without end")
		}
	}
}

// settle makes changes until one is noticed, since a subscription may take effect some time after Wake has returned.
func (r *rig) settle(hints <-chan driver.Record, change func()) {
	r.Helper()
	for end := time.Now().Add(r.patience); time.Now().Before(end); {
		change()
		if r.received(hints, min(200*time.Millisecond, r.patience/4)) {
			r.calm(hints)
			return
		}
	}
	r.Fatalf("no change of hands was hinted at in %v", r.patience)
}

// hinted wants a hint after a change.
func (r *rig) hinted(hints <-chan driver.Record, what string, change func()) {
	r.Helper()
	r.calm(hints)
	change()
	if !r.received(hints, r.patience) {
		r.Errorf("no hint after %s", what)
	}
}
