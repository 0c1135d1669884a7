package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

var notifyChecks = append(followChecks, []check{
	{"a_change_of_holder_notifies", func(r *rig) {
		a, b := r.client(), r.client()
		l := r.swap(a, taken("seat", 1))
		notices := r.watch(a, r.ctx, "")
		r.awaitSubscription(notices, func() { l = r.swap(a, handed(l, "a")) })
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
				{"a new term of the same holder",
					func(l driver.Record) driver.Record { l.Epoch++; l.Nonce++; return l }},
				{"a release", released},
			}

			for _, c := range changes {
				r.wantNotice(notices, c.what+" by "+from.who, func() { l = r.swap(from.s, c.change(l)) })
			}

			r.wantNotice(notices, "a creation by "+from.who, func() { r.swap(from.s, taken("new for "+from.who, 1)) })
		}
	}},
	{"renewals_notify_nobody", func(r *rig) {
		a, b := r.client(), r.client()
		l := r.swap(a, taken("seat", 1))
		notices := r.watch(b, r.ctx, "")
		r.awaitSubscription(notices, func() { l = r.swap(a, handed(l, "a")) })
		const renewals = 20
		woken := 0

		for i := range renewals {
			l.Data = fmt.Append(nil, "checkpoint ", i)
			l = r.swap(a, renewed(l))
			if r.received(notices, 20*time.Millisecond) {
				woken++
			}
		}

		if woken >= renewals/2 {
			r.Errorf("%d renewals woke %d times", renewals, woken)
		}

		r.wantNotice(notices, "a claim after renewals", func() { l = r.swap(a, handed(l, "b")) })
	}},
	{"a_notification_reaches_every_prefix_of_its_name", func(r *rig) {
		a, b := r.client(), r.client()
		const name = `team_50%/Seat [a]*\é`
		l := r.swap(a, taken(name, 1))
		for _, prefix := range []string{"", "t", "team_50%/", `team_50%/Seat [a]*\`, name} {
			if !strings.HasPrefix(name, prefix) {
				r.Fatalf("the suite's prefix %q is none of %q", prefix, name)
			}
			notices := r.watch(b, r.ctx, prefix)
			r.awaitSubscription(notices, func() { l = r.swap(a, handed(l, "b")) })
			r.wantNotice(notices, fmt.Sprintf("a claim of %q below %q", name, prefix),
				func() { l = r.swap(a, handed(l, "c")) })
		}
	}},
	{"a_record_in_a_notification_is_the_whole_change", func(r *rig) {
		a, b := r.client(), r.client()
		one, two := r.swap(a, taken("seat 1", 1)), r.swap(a, taken("seat 2", 1))
		notices := r.watch(b, r.ctx, "seat")
		r.awaitSubscription(notices, func() { one = r.swap(a, handed(one, "a")) })
		for range 3 {
			r.wantNoticeOf(notices, b, "seat 1", func() { one = r.swap(a, handed(one, "b")) })
			r.wantNoticeOf(notices, b, "seat 1", func() { one = r.swap(a, released(one)) })
		}

		// After two changes no record alone is right. A third change shows that both have arrived.
		third := r.swap(a, taken("third", 1))
		after := r.watch(b, r.ctx, "third")
		r.awaitSubscription(after, func() { third = r.swap(a, handed(third, "a")) })
		one, two = r.swap(a, handed(one, "c")), r.swap(a, handed(two, "c"))
		r.drain(notices)
		r.wantNotice(after, "two releases and a claim", func() {
			r.swap(a, released(one))
			r.swap(a, released(two))
			r.swap(a, handed(third, "b"))
		})

		select {
		case l := <-notices:
			if l.Name != "" && !r.received(notices, r.timeout) {
				r.Errorf("two registers have changed hands, and a notification carries %q as if it were all", l.Name)
			}
		case <-time.After(r.timeout):
			r.Errorf("no notice after two releases")
		}
	}},
	{"a_notification_names_a_written_register_below_its_prefix", func(r *rig) {
		const prefix = "seat/"
		a, b := r.client(), r.client()
		w := written{}
		one, two := w.swap(r, a, taken("seat/1", 1)), w.swap(r, a, taken("seat/2", 1))
		other := w.swap(r, a, taken("seat", 1))
		notices := r.watch(b, r.ctx, prefix)
		r.awaitSubscription(notices, func() { one = w.swap(r, a, handed(one, "a")) })
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
				case l := <-notices:
					if wrong := w.check(l, prefix); wrong != "" {
						r.Fatalf("a notification for what is below %q %s", prefix, wrong)
					}
				case <-end:
					end = nil
				}
			}
		}

		last := time.After(r.timeout)
		two = w.swap(r, a, handed(two, "c")) // so that a store with slow notifications sends one as well
		select {
		case l := <-notices:
			if wrong := w.check(l, prefix); wrong != "" {
				r.Errorf("a notification for what is below %q %s", prefix, wrong)
			}
		case <-last:
			r.Errorf("no notice after a claim")
		}
	}},
	{"a_subscription_ends_with_its_context_only", func(r *rig) {
		s := r.client()
		l := r.swap(s, taken("seat", 1))
		stays := r.watch(s, r.ctx, "")
		r.awaitSubscription(stays, func() { l = r.swap(s, handed(l, "a")) })
		ended := make([]<-chan driver.Record, 10)
		for i := range ended {
			ctx, cancel := context.WithCancel(r.ctx)
			ended[i] = r.watch(s, ctx, "")
			cancel()
		}

		before, cancel := context.WithCancel(r.ctx)
		cancel()
		ended = append(ended, r.watch(s, before, ""))
		for _, notices := range ended {
			r.drain(notices)
		}

		r.wantNotice(stays, "a claim after other watchers ended", func() { l = r.swap(s, handed(l, "b")) })
	}},
	{"notifications_that_nobody_takes_block_nobody", func(r *rig) {
		s := r.client()
		l := r.swap(s, taken("seat", 1))
		idle, notices := r.watch(s, r.ctx, ""), r.watch(s, r.ctx, "")
		r.awaitSubscription(notices, func() { l = r.swap(s, handed(l, "a")) })
		r.mustReturn("claims with an idle watcher", func() {
			for range 200 {
				l = r.swap(s, handed(l, "b"))
			}
		})

		r.wantNotice(notices, "a claim with an idle watcher", func() { l = r.swap(s, handed(l, "c")) })
		if cap(idle) > 1 {
			r.Errorf("a channel of notices holds %d, want 1: notices are merged", cap(idle))
		}
	}},
}...)

// watch subscribes to prefix, or skips the test.
func (r *rig) watch(s driver.Store, ctx context.Context, prefix string) <-chan driver.Record {
	r.Helper()
	return r.follow(s, ctx, driver.Prefix(prefix))
}

// follow subscribes to what an Interest covers, or skips the test.
func (r *rig) follow(s driver.Store, ctx context.Context, to *driver.Interest) <-chan driver.Record {
	r.Helper()
	w, ok := s.(driver.Notifier)
	if !ok {
		r.Skip("the store is no Notifier")
	}

	notices := w.Subscribe(ctx, to)
	if notices == nil {
		r.Fatalf("Subscribe returned no channel")
	}
	return notices
}

// received waits for a notification. A closed channel is a failure: its reader would never block again.
func (r *rig) received(notices <-chan driver.Record, within time.Duration) bool {
	r.Helper()
	select {
	case _, open := <-notices:
		if !open {
			r.Fatalf("the channel of notices was closed")
		}
		return true
	case <-time.After(within):
		return false
	}
}

// wantNoticeOf changes a register and wants a notification of it: the zero Record, one with its name, or its current
// record. A notification of an earlier change may come before.
func (r *rig) wantNoticeOf(notices <-chan driver.Record, s driver.Store, name string, change func()) {
	r.Helper()
	r.drain(notices)
	change()
	wrong := "no notice came"
	for limit := time.After(r.timeout); ; {
		select {
		case l := <-notices:
			if l.Name == "" && l.Rev == "" || l.Name == name && l.Rev == "" {
				return
			}

			shown := r.get(s, name)
			d := differ(shown, l)
			if d == "" && l.Rev == shown.Rev {
				return
			}

			wrong = fmt.Sprintf("a notification carries %q at revision %q, and %q shows %q: %s", l.Name, l.Rev, name,
				shown.Rev,
				d)
		case <-limit:
			r.Errorf("%s", wrong)
			return
		}
	}
}

// written holds the records that a test has written, by register and revision.
type written map[string]map[string]driver.Record

// swap writes a record, and adds it to w.
func (w written) swap(r *rig, s driver.Store, l driver.Record) driver.Record {
	r.Helper()
	l = r.swap(s, l)
	if w[l.Name] == nil {
		w[l.Name] = map[string]driver.Record{}
	}
	w[l.Name][l.Rev] = l
	return l
}

// check returns what is wrong with a notification for prefix, or an empty string. Of the three forms, the zero Record
// is always right. A notification with a name must name a register below prefix. A notification with a revision must be
// the record that was written at that revision.
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

// drain receives notifications until none comes any more.
func (r *rig) drain(notices <-chan driver.Record) {
	r.Helper()
	for n := 0; r.received(notices, 30*time.Millisecond); n++ {
		if n > 100 {
			r.Fatalf("notices come without end")
		}
	}
}

// awaitSubscription makes changes until one is notified, because a subscription may take effect some time after Wake
// has returned.
func (r *rig) awaitSubscription(notices <-chan driver.Record, change func()) {
	r.Helper()
	for end := time.Now().Add(r.timeout); time.Now().Before(end); {
		change()
		if r.received(notices, min(200*time.Millisecond, r.timeout/4)) {
			r.drain(notices)
			return
		}
	}

	r.Fatalf("no change of hands was notified of in %v", r.timeout)
}

// wantNotice wants a notification after a change.
func (r *rig) wantNotice(notices <-chan driver.Record, what string, change func()) {
	r.Helper()
	r.drain(notices)
	change()
	if !r.received(notices, r.timeout) {
		r.Errorf("no notice after %s", what)
	}
}
