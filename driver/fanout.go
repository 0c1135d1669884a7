package driver

import "iter"

// Fanout holds the subscriptions of a driver, and finds them by the name of a register. S is what a driver keeps for
// each subscription.
//
// To find the subscriptions of one name takes one map access, and one for each different length of a prefix, however
// many subscriptions there are. A Fanout has no lock: a driver guards it with the lock that orders its notifications.
// The zero value is empty and ready to use.
type Fanout[S comparable] struct {
	subscriptions map[string]map[S]bool // by prefix
	lengths       map[int]int           // how many subscriptions have a prefix of that length
	named         map[string]map[S]bool // by name
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

// Apply subscribes s to what has come to its [Interest], or ends the subscriptions of s to what has gone from it.
func (f *Fanout[S]) Apply(change InterestChange, s S) {
	for _, prefix := range change.Prefixes {
		if change.Gone {
			f.Remove(prefix, s)
		} else {
			f.Add(prefix, s)
		}
	}

	for _, name := range change.Names {
		if change.Gone {
			f.removeName(name, s)
		} else {
			f.addName(name, s)
		}
	}
}

func (f *Fanout[S]) addName(name string, s S) {
	if f.closed {
		return
	}
	if f.named == nil {
		f.named = map[string]map[S]bool{}
	}
	if f.named[name] == nil {
		f.named[name] = map[S]bool{}
	}

	f.named[name][s] = true
}

func (f *Fanout[S]) removeName(name string, s S) {
	delete(f.named[name], s)
	if len(f.named[name]) == 0 {
		delete(f.named, name)
	}
}

// Clear ends every subscription.
func (f *Fanout[S]) Clear() {
	clear(f.subscriptions)
	clear(f.lengths)
	clear(f.named)
}

// Close ends every subscription, and makes Add do nothing from now on.
func (f *Fanout[S]) Close() {
	f.closed = true
	f.Clear()
}

// Closed reports whether Close was called.
func (f *Fanout[S]) Closed() bool { return f.closed }

// Empty reports whether there is no subscription.
func (f *Fanout[S]) Empty() bool { return len(f.subscriptions) == 0 && len(f.named) == 0 }

// Named reports whether a register has a subscription by its name.
func (f *Fanout[S]) Named(name string) bool { return len(f.named[name]) > 0 }

// Matching yields every subscription to a name, or to a prefix of it, once.
func (f *Fanout[S]) Matching(name string) iter.Seq[S] {
	return func(yield func(S) bool) {
		for s := range f.named[name] {
			if !yield(s) {
				return
			}
		}

		var before []int // the lengths that were yielded
		for n := range f.lengths {
			if n > len(name) || len(f.subscriptions[name[:n]]) == 0 {
				continue
			}
			for s := range f.subscriptions[name[:n]] {
				if !f.yielded(name, before, s) && !yield(s) {
					return
				}
			}

			before = append(before, n)
		}
	}
}

// yielded reports whether Matching has yielded a subscription already.
func (f *Fanout[S]) yielded(name string, lengths []int, s S) bool {
	if f.named[name][s] {
		return true
	}

	for _, n := range lengths {
		if f.subscriptions[name[:n]][s] {
			return true
		}
	}

	return false
}

// All yields every subscription by prefix, with its prefix.
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

// AllNamed yields every subscription by name, with its name.
func (f *Fanout[S]) AllNamed() iter.Seq2[string, S] {
	return func(yield func(string, S) bool) {
		for name, of := range f.named {
			for s := range of {
				if !yield(name, s) {
					return
				}
			}
		}
	}
}
