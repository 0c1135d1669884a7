package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/regentd/regent/driver"
)

// followChecks are about subscriptions by name.
var followChecks = []check{
	{"a_register_that_is_followed_by_name_notifies", func(r *rig) {
		a, b := r.client(), r.client()
		for _, name := range []string{`team_50%/Seat [a]*\é{b}`, driver.MemberRegister("a"), "seat"} {
			l := r.swap(a, taken(name, 1))
			notices := r.follow(b, r.ctx, driver.Names(name))
			r.awaitSubscription(notices, func() { l = r.swap(a, handed(l, "a")) })
			r.wantNoticeOf(notices, b, name, func() { l = r.swap(a, handed(l, "b")) })
			r.wantNoticeOf(notices, b, name, func() { l = r.swap(b, handed(l, "c")) })
			r.wantNoticeOf(notices, b, name, func() { l = r.swap(a, released(l)) })
		}
	}},
	{"a_register_is_followed_before_it_exists", func(r *rig) {
		a, b := r.client(), r.client()
		other := r.swap(a, taken("other", 1))
		notices := r.follow(b, r.ctx, driver.Names("other", "new"))
		r.awaitSubscription(notices, func() { other = r.swap(a, handed(other, "a")) })
		r.wantNotice(notices, "a creation", func() { r.swap(a, taken("new", 1)) })
	}},
	{"registers_that_are_not_followed_notify_nobody", func(r *rig) {
		a, b := r.client(), r.client()
		mine := r.swap(a, taken("seat", 1))
		others := make([]driver.Record, 10)
		for i := range others {
			others[i] = r.swap(a, taken(fmt.Sprint("seat/", i), 1))
		}

		to := driver.Names("seat")
		notices := r.follow(b, r.ctx, to)
		r.awaitSubscription(notices, func() { mine = r.swap(a, handed(mine, "a")) })
		r.wantQuiet(notices, "registers that were never followed", func() {
			for i := range others {
				others[i] = r.swap(a, released(r.swap(a, handed(others[i], "b"))))
			}
		})

		to.Remove("seat")
		r.drain(notices)
		r.wantQuiet(notices, "a register that is not followed any more", func() {
			for range others {
				mine = r.swap(a, handed(mine, "b"))
			}
		})
	}},
	{"registers_are_added_and_removed", func(r *rig) {
		a, b := r.client(), r.client()
		one, two := r.swap(a, taken("seat 1", 1)), r.swap(a, taken("seat 2", 1))
		to := driver.Names("seat 1")
		notices := r.follow(b, r.ctx, to)
		r.awaitSubscription(notices, func() { one = r.swap(a, handed(one, "a")) })
		for range 3 {
			to.Add("seat 2")
			r.awaitSubscription(notices, func() { two = r.swap(a, handed(two, "a")) })
			r.wantNotice(notices, "a claim of one that was added", func() { two = r.swap(a, handed(two, "b")) })
			r.wantNotice(notices, "a claim of one that stays", func() { one = r.swap(a, handed(one, "b")) })
			to.Remove("seat 2")
			r.wantNotice(notices, "a claim of one that stays, of two", func() { one = r.swap(a, handed(one, "c")) })
		}
	}},
	// Whoever adds a register reads it after that. A change after the read must be notified of, also if the
	// subscription takes effect later.
	{"a_change_right_after_a_register_is_added_notifies", func(r *rig) {
		a, b := r.client(), r.client()
		to := driver.Names("first")
		first := r.swap(a, taken("first", 1))
		notices := r.follow(b, r.ctx, to)
		r.awaitSubscription(notices, func() { first = r.swap(a, handed(first, "a")) })
		for i := range 10 {
			name := fmt.Sprint("seat ", i)
			l := r.swap(a, taken(name, 1))
			r.drain(notices)
			to.Add(name)
			r.get(b, name)
			r.swap(a, released(l))
			r.wantNoticeSince(notices, b, name)
		}
	}},
	// What a driver keeps to leave out renewals must not be of a time before the register was followed anew.
	{"a_change_that_is_undone_while_nobody_follows_notifies_when_it_is_made_again", func(r *rig) {
		a, b := r.client(), r.client()
		seat, other := r.swap(a, taken("seat", 1)), r.swap(a, taken("other", 1))
		to := driver.Names("seat")
		notices := r.follow(b, r.ctx, to)
		r.awaitSubscription(notices, func() { seat = r.swap(a, handed(seat, "b")) })
		r.wantNotice(notices, "a request", func() { seat = r.swap(a, asked(seat, "a")) })

		to.Remove("seat")
		to.Add("other")
		r.awaitSubscription(notices, func() { other = r.swap(a, handed(other, "b")) })
		seat = r.swap(a, asked(seat, ""))

		to.Add("seat")
		to.Remove("other")
		to.Add("next")
		next := r.swap(a, taken("next", 1))
		r.awaitSubscription(notices, func() { next = r.swap(a, handed(next, "b")) })
		r.wantNotice(notices, "the same request again", func() { seat = r.swap(a, asked(seat, "a")) })
	}},
	{"hundreds_of_registers_are_followed", func(r *rig) {
		const many = driver.MaxTopics + 50
		a, b := r.client(), r.client()
		names := make([]string, many)
		for i := range names {
			names[i] = fmt.Sprintf("seat %d", i)
		}

		first, last := r.swap(a, taken(names[0], 1)), r.swap(a, taken(names[many-1], 1))
		other := r.swap(a, taken("other", 1))
		to := driver.Names(names[:many/2]...)
		notices := r.follow(b, r.ctx, to)
		r.awaitSubscription(notices, func() { first = r.swap(a, handed(first, "a")) })
		for i := range 2 {
			to.Add(names...)
			r.awaitSubscription(notices, func() { last = r.swap(a, handed(last, "a")) })
			r.wantNotice(notices, "a claim of the first of many", func() { first = r.swap(a, handed(first, "b")) })
			r.wantNotice(notices, "a claim of the last of many", func() { last = r.swap(a, handed(last, "b")) })

			to.Remove(names[1:]...)
			r.wantNotice(notices, "a claim of the one that is left", func() { first = r.swap(a, handed(first, "c")) })
			r.drain(notices)
			r.wantQuiet(notices, fmt.Sprint("registers that are not followed any more, round ", i), func() {
				last = r.swap(a, handed(last, "c"))
				other = r.swap(a, handed(other, "c"))
			})
		}
	}},
	{"a_subscription_by_name_ends_with_its_context", func(r *rig) {
		s := r.client()
		l := r.swap(s, taken("seat", 1))
		stays := r.follow(s, r.ctx, driver.Names("seat"))
		r.awaitSubscription(stays, func() { l = r.swap(s, handed(l, "a")) })
		ctx, cancel := context.WithCancel(r.ctx)
		to := driver.Names("seat")
		ended := r.follow(s, ctx, to)
		cancel()
		r.wantNotice(stays, "a claim after another subscription ended", func() { l = r.swap(s, handed(l, "b")) })
		r.drain(ended)
		r.wantQuiet(ended, "a subscription that has ended", func() {
			to.Add("seat", "other")
			for range 5 {
				l = r.swap(s, handed(l, "c"))
			}
		})
	}},
}

// asked returns the record of an election whose leader is asked to hand over to a member.
func asked(l driver.Record, to string) driver.Record {
	l.Next = to
	l.Edits++
	return l
}

// wantQuiet wants that changes notify nobody, at the latest after some of them: a register may be given up later.
func (r *rig) wantQuiet(notices <-chan driver.Record, of string, change func()) {
	r.Helper()
	const enough, most = 3, 30
	quiet := 0
	for range most {
		change()
		if quiet++; r.received(notices, 20*time.Millisecond) {
			quiet = 0
		}
		if quiet == enough {
			return
		}
	}
	r.Errorf("%s notify", of)
}

// wantNoticeSince wants that the notifications that have come, or that come soon, tell of the current record of a
// register, or have it read.
func (r *rig) wantNoticeSince(notices <-chan driver.Record, s driver.Store, name string) {
	r.Helper()
	for limit := time.After(r.timeout); ; {
		select {
		case l := <-notices:
			if l.Name == "" || l.Name == name {
				if shown := r.get(s, name); shown.Vacant() {
					return
				}
			}
		case <-limit:
			r.Errorf("%q was released right after it was followed, and no notice came", name)
			return
		}
	}
}
