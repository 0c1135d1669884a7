package core

import (
	"slices"

	"github.com/regentd/regent/driver"
)

// This file shares many free elections among the candidates under rank first, for example those of a member that has
// died. Every member finds the same owner for an election if they know the same candidates, and most of the same owners
// if they do not quite (consistent hashing). The candidates have points on a ring; the owner of an election is the one
// whose point comes next after the election's. So finding it reads a few points, and not all candidates.

const (
	pointsEach  = 64      // of one candidate: so many that shares are about equal
	ringBuckets = 1 << 12 // of the ring, by the upper bits of a point
	bucketShift = 64 - 12
)

// ring holds the points of candidates. It is empty until there is one.
type ring struct {
	buckets [][]point // each in order
	peers   int
}

type point struct {
	at   uint64
	peer uint32
}

// hash is FNV-1a. That alone leaves the order of similar names in the upper bits, so they are mixed.
func hash(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h ^= uint64(text[i])
		h *= 1099511628211
	}

	return mix(h)
}

func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}

// pointsOf returns the points of a candidate, in order.
func pointsOf(id string) []uint64 {
	points := make([]uint64, pointsEach)
	seed := hash(id)
	for i := range points {
		seed += 0x9e3779b97f4a7c15
		points[i] = mix(seed)
	}

	slices.Sort(points)
	return points
}

// distance is how far the next of some points is from a place on the ring.
func distance(from uint64, points []uint64) uint64 {
	i, _ := slices.BinarySearch(points, from)
	if i == len(points) {
		i = 0
	}

	return points[i] - from
}

func (r *ring) add(peer uint32, points []uint64) {
	if r.buckets == nil {
		r.buckets = make([][]point, ringBuckets)
	}

	r.peers++
	for _, at := range points {
		b := &r.buckets[at>>bucketShift]
		k, _ := slices.BinarySearchFunc(*b, at, comparePoint)
		*b = slices.Insert(*b, k, point{at, peer})
	}
}

func (r *ring) remove(peer uint32, points []uint64) {
	if len(points) == 0 {
		return
	}

	r.peers--
	for _, at := range points {
		b := &r.buckets[at>>bucketShift]
		*b = slices.DeleteFunc(*b, func(p point) bool { return p == point{at, peer} })
	}
}

func comparePoint(p point, at uint64) int {
	switch {
	case p.at < at:
		return -1
	case p.at > at:
		return 1
	}

	return 0
}

// next returns the first point from a place on whose peer is not to be skipped.
func (r *ring) next(from uint64, skip func(peer uint32) bool) (point, bool) {
	first := from >> bucketShift
	for i := range uint64(ringBuckets + 1) { // the first one comes again, with the points before the place
		for _, p := range r.buckets[(first+i)%ringBuckets] {
			if (i > 0 || p.at >= from) && !skip(p.peer) {
				return p, true
			}
		}
	}

	return point{}, false
}

func (r *ring) clone() ring {
	d := ring{peers: r.peers}
	if r.buckets != nil {
		d.buckets = make([][]point, len(r.buckets))
		for i, b := range r.buckets {
			d.buckets[i] = slices.Clone(b)
		}
	}

	return d
}

// sharedOut reports whether a free election is the share of another candidate, but for one that has just lost it.
func (c *Core) sharedOut(e *election, last driver.Identity) bool {
	r := &c.roster
	if r.own == nil {
		r.own = pointsOf(c.cfg.ID)
	}

	from := hash(e.name)
	mine := distance(from, r.own)

	if r.ring.peers > 1 || r.ring.peers == 1 && r.peers.all[r.everywhere[0]].who != last {
		p, ok := r.ring.next(from, func(peer uint32) bool { return r.peers.all[peer].who == last })
		if ok && p.at-from < mine {
			return true
		}
	}

	// Members name few elections, so all these lists together are no longer than what was listed.
	c.work += len(r.named[e.name]) / 16
	for _, i := range r.named[e.name] {
		if p := r.peers.all[i]; p.who != last && distance(from, p.points) < mine {
			return true
		}
	}

	return false
}
