package driver

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Interest is the registers that a subscription follows: single ones by their names, or all whose names begin with a
// prefix. Its owner may change it at any time. An Interest is safe for concurrent use. The zero value follows nothing.
type Interest struct {
	mu        sync.Mutex
	names     map[string]bool
	prefixes  map[string]bool
	observers map[*observer]bool
}

type observer struct{ changed func(InterestChange) }

// InterestChange is what has come to an [Interest], or has gone from it.
type InterestChange struct {
	Gone     bool
	Names    []string
	Prefixes []string
}

// Names returns an Interest in single registers.
func Names(names ...string) *Interest {
	i := &Interest{}
	i.Add(names...)
	return i
}

// Prefix returns an Interest in all registers whose names begin with prefix.
func Prefix(prefix string) *Interest {
	return &Interest{prefixes: map[string]bool{prefix: true}}
}

// Add adds single registers. It does not wait for the store.
func (i *Interest) Add(names ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.names == nil {
		i.names = map[string]bool{}
	}

	var added []string
	for _, name := range names {
		if !i.names[name] {
			i.names[name] = true
			added = append(added, name)
		}
	}

	i.reportLocked(InterestChange{Names: added})
}

// Remove removes single registers, as far as they were added. It does not wait for the store.
func (i *Interest) Remove(names ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()

	var gone []string
	for _, name := range names {
		if i.names[name] {
			delete(i.names, name)
			gone = append(gone, name)
		}
	}

	i.reportLocked(InterestChange{Gone: true, Names: gone})
}

func (i *Interest) reportLocked(change InterestChange) {
	if len(change.Names) == 0 && len(change.Prefixes) == 0 {
		return
	}

	for o := range i.observers {
		o.changed(change)
	}
}

// Covers reports whether a register is followed.
func (i *Interest) Covers(name string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.names[name] {
		return true
	}

	for prefix := range i.prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}

	return false
}

// String returns the prefix, if there is one, or "names".
func (i *Interest) String() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, prefix := range slices.Sorted(maps.Keys(i.prefixes)) {
		return prefix + "*"
	}

	return "names"
}

// Observe calls changed with everything that is followed, and then with every change. It is for drivers. One call comes
// at a time, in the order of the changes. changed must not block, and must not use the Interest. Stop ends that, with a
// last call that removes everything.
func (i *Interest) Observe(changed func(InterestChange)) (stop func()) {
	i.mu.Lock()
	defer i.mu.Unlock()

	o := &observer{changed}
	if i.observers == nil {
		i.observers = map[*observer]bool{}
	}

	i.observers[o] = true
	changed(i.allLocked(false))

	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.observers[o] {
			delete(i.observers, o)
			changed(i.allLocked(true))
		}
	}
}

// Subscription returns a channel for notifications, with room for one, and calls apply with it for everything that is
// followed, for every change, and when ctx has ended: see [Interest.Observe]. Most drivers subscribe with it.
func (i *Interest) Subscription(ctx context.Context, apply func(InterestChange, chan Record)) <-chan Record {
	c := make(chan Record, 1)
	if ctx.Err() == nil {
		context.AfterFunc(ctx, i.Observe(func(change InterestChange) { apply(change, c) }))
	}
	return c
}

func (i *Interest) allLocked(gone bool) InterestChange {
	return InterestChange{
		Gone: gone, Names: slices.Collect(maps.Keys(i.names)), Prefixes: slices.Collect(maps.Keys(i.prefixes)),
	}
}
