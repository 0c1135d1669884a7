package storetest

import (
	"context"
	"time"

	"github.com/regentd/regent/driver"
)

// brokenFollows are stores whose subscriptions by name are faulty.
func brokenFollows() []mutant {
	const right = "a_change_right_after_a_register_is_added_notifies"
	return []mutant{
		followed("names_are_not_followed", func(*driver.Interest) *driver.Interest {
			return driver.Names()
		}, "a_register_that_is_followed_by_name_notifies", "a_register_is_followed_before_it_exists"),
		followed("names_follow_everything", func(*driver.Interest) *driver.Interest {
			return driver.Prefix("")
		}, "registers_that_are_not_followed_notify_nobody"),
		followed("names_are_not_added", func(to *driver.Interest) *driver.Interest {
			first := driver.Names()
			to.Observe(func(c driver.InterestChange) { first.Add(c.Names...) })()
			return first
		}, "registers_are_added_and_removed", "hundreds_of_registers_are_followed"),
		followed("names_are_added_late_and_silently", addedLate, right),
		broken("what_was_notified_of_before_is_left_out", func(t *brokenStore) {
			t.subscribe = func(ctx context.Context, to *driver.Interest) <-chan driver.Record {
				return withoutRepeats(ctx, t.fullStore.Subscribe(ctx, to))
			}
		}, "a_change_that_is_undone_while_nobody_follows_notifies_when_it_is_made_again"),
		broken("a_subscription_by_name_outlives_its_context", func(t *brokenStore) {
			t.subscribe = func(ctx context.Context, to *driver.Interest) <-chan driver.Record {
				return t.fullStore.Subscribe(context.WithoutCancel(ctx), to)
			}
		}, "a_subscription_by_name_ends_with_its_context"),
	}
}

// followed makes a store that follows something else than it is asked to.
func followed(name string, what func(*driver.Interest) *driver.Interest, caught ...string) mutant {
	return broken(name, func(t *brokenStore) {
		t.subscribe = func(ctx context.Context, to *driver.Interest) <-chan driver.Record {
			return t.fullStore.Subscribe(ctx, what(to))
		}
	}, caught...)
}

// addedLate follows what is added later after a moment, and notifies of nothing then.
func addedLate(to *driver.Interest) *driver.Interest {
	late := driver.Names()
	begun := false
	to.Observe(func(c driver.InterestChange) {
		switch {
		case c.Gone:
			late.Remove(c.Names...)
		case !begun:
			late.Add(c.Names...)
		default:
			time.AfterFunc(100*time.Millisecond, func() { late.Add(c.Names...) })
		}
		begun = true
	})
	return late
}

// withoutRepeats passes on notifications until ctx ends, but for those that show what the last one of the register has
// shown.
func withoutRepeats(ctx context.Context, from <-chan driver.Record) <-chan driver.Record {
	passed := make(chan driver.Record, 1)
	go func() {
		last := map[string]driver.Record{}
		for {
			select {
			case l := <-from:
				was, known := last[l.Name]
				if l.Rev != "" && known && !l.Notable(was) {
					continue
				}
				if l.Rev != "" {
					last[l.Name] = l
				}
				driver.Notify(passed, l)
			case <-ctx.Done():
				return
			}
		}
	}()
	return passed
}
