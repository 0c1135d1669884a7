package core

import (
	"math"
	"slices"

	"github.com/regentd/regent/driver"
)

// This file shares many free elections among the candidates under rank first, for example those of a member that has
// died. Every member finds the same owner for an election if they know the same candidates, and most of the same owners
// if they do not quite (consistent hashing). The candidates have points on a ring, and an election has some places
// there; its owner is the one whose point comes next after one of them. So finding it reads a few points, and not all
// candidates.

const (
	pointsEach  = 64      // of one candidate
	probes      = 4       // places of one election: with them, shares differ by about 4 %, with one place by 10 %
	ringBuckets = 1 << 12 // of the ring, by the upper bits of a point
	bucketShift = 64 - 12

	// sharingMost is for how many head starts, at the most, candidates wait because elections are still being claimed.
	sharingMost = 3
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

// near returns a point less than so far from a place on the ring, whose peer is not to be skipped.
func (r *ring) near(from, within uint64, skip func(peer uint32) bool) (point, bool) {
	if r.buckets == nil {
		return point{}, false
	}

	first := from >> bucketShift
	buckets := min(within>>bucketShift+2, ringBuckets+1) // of a whole ring the last is the first one again
	for i := range buckets {
		for _, p := range r.buckets[(first+i)%ringBuckets] {
			if p.at-from < within && !skip(p.peer) {
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

// probe returns one of the places of an election on the ring.
func probe(seed uint64, i int) uint64 { return mix(seed + uint64(i)*0x9e3779b97f4a7c15) }

// nearest is how far the next of some points is from that place of an election to which it is next.
func nearest(seed uint64, points []uint64) uint64 {
	least := uint64(math.MaxUint64)
	for i := range probes {
		least = min(least, distance(probe(seed, i), points))
	}

	return least
}

// choice is whose share a free election is.
type choice int

const (
	firstChoice  choice = iota // it is this member's share
	secondChoice               // it would be, without one other candidate
	noChoice                   // two others come first
)

// choose returns whose share a free election is, among all candidates but one that has just lost it.
func (c *Core) choose(e *election, last driver.Identity) choice {
	r := &c.roster
	if r.own == nil {
		r.own = pointsOf(c.cfg.ID)
	}

	seed := hash(e.name)
	mine := nearest(seed, r.own)

	first := uint32(math.MaxUint32)
	others := firstChoice
	for i := range probes {
		for others < noChoice {
			p, ok := r.ring.near(probe(seed, i), mine, func(peer uint32) bool {
				return peer == first || r.peers.all[peer].who == last
			})
			if !ok {
				break
			}

			others++
			first = p.peer
		}
	}

	// Members name few elections, so all these lists together are no longer than what was listed.
	c.work += len(r.named[e.name]) / 4
	for _, i := range r.named[e.name] {
		if p := r.peers.all[i]; others < noChoice && p.who != last && nearest(seed, p.points) < mine {
			others++
		}
	}

	return others
}

// mergeable reports whether an election is one of many that change hands, and known: it need not be read at once.
func (c *Core) mergeable(e *election) bool {
	known := e.seen && !e.stale && e.call.id == 0 && e.term.state == noTerm
	return known && c.rank.kind == rankFirst && c.crowded(e)
}

// readLately reports whether an election was read a short time ago. Whoever is slower than the others would read again
// and again, and never claim.
func (c *Core) readLately(e *election) bool { return c.now < e.own.began.Add(c.headStartTime()) }

// readMerged has an election read a little later, together with others of a crowd that have changed by then. A claim
// need not wait for that: it is conditional on the revision that is known (rule 4).
func (c *Core) readMerged(e *election) {
	c.mergeWindow()
	e.pollAt = min(e.pollAt, c.mergeAt)
}

// mergeWindow begins the time over which reads of a crowd are put off, so that they are sent together, and reports
// whether it had not begun before.
func (c *Core) mergeWindow() bool {
	if c.now < c.mergeAt {
		return false
	}

	c.mergeAt = c.now.Add(c.mergeTime())
	return true
}

// noteShared notes that one of many free elections is held by another now. As long as that goes on, what is left is
// most likely the share of somebody who has not come to it yet.
func (c *Core) noteShared(e *election, r *driver.Record) {
	if e.open && !r.Vacant() && r.Holder.ID != c.cfg.ID && c.crowded(e) {
		c.sharedAt = c.now
	}
}

// claimsShare and claimedShare note that a claim of this member's own share is under way, and that it no longer is.
func (c *Core) claimsShare(e *election) {
	if !e.share {
		e.share = true
		c.sharing++
	}
}

func (c *Core) claimedShare(e *election) {
	if e.share {
		e.share = false
		c.sharing--
		c.sharedAt = c.now
	}
}

// quietSince returns since when no share of many free elections was claimed, as far as that is known: not before they
// were free, and not long after that.
func (c *Core) quietSince(free Time) Time {
	quiet := max(free, c.sharedAt)
	if c.sharing > 0 {
		quiet = c.now
	}

	return min(quiet, free.Add(sharingMost*c.headStartTime()))
}

// takesShare reports whether this member should claim one of many free elections now: its own share at once, what would
// be its share without one other candidate when no share was claimed for half a head start, and everything when none
// was claimed for a whole one. If not, the election is advanced again when its time has come.
func (c *Core) takesShare(e *election) bool {
	free := c.headStart(e, &e.rec)
	quiet := c.quietSince(free)
	until := quiet.Add(c.headStartTime())
	if c.now >= until {
		return true
	}

	if !c.recent() && (!c.roster.known || c.roster.listedAt < free) {
		e.wake(until)
		c.awaitList(&e.entity)
		c.listSoon()
		return false
	}

	switch c.choose(e, e.lastHeld.Holder) { // who has just released it may not have left yet
	case firstChoice:
		c.claimsShare(e)
		return true
	case secondChoice:
		until = quiet.Add(c.headStartTime() / 2)
		if c.now >= until {
			return true
		}
	}

	c.giveWay(e, until)
	return false
}
