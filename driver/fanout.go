package driver

import "iter"

// Fanout holds the subscriptions of a driver's Wake, and finds them by the name of a register. S is what a driver keeps
// for each subscription.
//
// To find the subscriptions of one name takes as many map accesses as there are different lengths of prefixes, however
// many subscriptions there are. A Fanout has no lock: a driver guards it with the lock that orders its notifications.
// The zero value is empty and ready to use.
type Fanout[S comparable] struct {
	subscriptions map[string]map[S]bool // by prefix
	lengths       map[int]int           // how many subscriptions have a prefix of that length
	closed        bool
}

// Add subscribes s to the registers whose names begin with prefix. The same s may be added once for each prefix. After
// Close it does nothing.
func (f *Fanout[S]) Add(prefix string, s S) {
	if f.closed {
		return
	}
	if f.subscriptions == nil {
		f.subscriptions, f.lengths = map[string]map[S]bool{}, map[int]int{}
	}

	if f.subscriptions[prefix] == nil {
		f.subscriptions[prefix] = map[S]bool{}
	}

	if !f.subscriptions[prefix][s] {
		f.subscriptions[prefix][s] = true
		f.lengths[len(prefix)]++
	}
}

// Remove ends the subscription of s to prefix, and reports whether there was one.
func (f *Fanout[S]) Remove(prefix string, s S) bool {
	if !f.subscriptions[prefix][s] {
		return false
	}

	delete(f.subscriptions[prefix], s)
	if len(f.subscriptions[prefix]) == 0 {
		delete(f.subscriptions, prefix)
	}

	if f.lengths[len(prefix)]--; f.lengths[len(prefix)] == 0 {
		delete(f.lengths, len(prefix))
	}

	return true
}

// Clear ends every subscription.
func (f *Fanout[S]) Clear() {
	clear(f.subscriptions)
	clear(f.lengths)
}

// Close ends every subscription, and makes Add do nothing from now on.
func (f *Fanout[S]) Close() {
	f.closed = true
	f.Clear()
}

// Closed reports whether Close was called.
func (f *Fanout[S]) Closed() bool { return f.closed }

// Empty reports whether there is no subscription.
func (f *Fanout[S]) Empty() bool { return len(f.subscriptions) == 0 }

// Matching yields every subscription to a prefix of name.
func (f *Fanout[S]) Matching(name string) iter.Seq[S] {
	return func(yield func(S) bool) {
		for n := range f.lengths {
			if n > len(name) {
				continue
			}
			for s := range f.subscriptions[name[:n]] {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// All yields every subscription with its prefix.
func (f *Fanout[S]) All() iter.Seq2[string, S] {
	return func(yield func(string, S) bool) {
		for prefix, of := range f.subscriptions {
			for s := range of {
				if !yield(prefix, s) {
					return
				}
			}
		}
	}
}
