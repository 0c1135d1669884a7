package core

import "slices"

// slab keeps entities by index, and gives the index of one that was dropped to the next.
type slab[T any] struct {
	all  []*T // nil where one was dropped
	free []uint32
}

// add returns the index of a new entity.
func (s *slab[T]) add(x *T) uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		s.all[i] = x
		return i
	}

	s.all = append(s.all, x)
	return uint32(len(s.all) - 1)
}

func (s *slab[T]) drop(i uint32) {
	s.all[i] = nil
	s.free = append(s.free, i)
}

// get returns nil for an index that is not in use.
func (s *slab[T]) get(i uint32) *T {
	if int(i) >= len(s.all) {
		return nil
	}

	return s.all[i]
}

// clone returns a slab of its own, with copies of the entities.
func (s *slab[T]) clone() slab[T] {
	d := slab[T]{all: make([]*T, len(s.all)), free: slices.Clone(s.free)}
	for i, x := range s.all {
		if x != nil {
			copied := *x
			d.all[i] = &copied
		}
	}

	return d
}
