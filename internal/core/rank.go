package core

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

// This file decides who should claim a free election when several could. That is a courtesy: the store's
// compare-and-swap decides who leads, and nobody is waited for longer than headStartTime; where many elections are free
// at once, for as long as they are being claimed, up to four times that.

// The ranks. The regions follow RankRegion, in order of preference, as in "region:eu-west,eu-central". An empty rank is
// RankFirst.
const (
	RankFirst         = "first"
	RankLexicographic = "lexicographic"
	RankPriority      = "priority"
	RankRegion        = "region"
	RankLatency       = "latency"
)

// ranking is a rank that was parsed.
type ranking struct {
	kind    rankKind
	regions []string
}

type rankKind uint8

const (
	rankFirst rankKind = iota // nobody is better than another
	rankLexicographic
	rankPriority
	rankRegion
	rankLatency
)

// parseRank returns a rank. The shell has validated it.
func parseRank(text string) ranking {
	kind, regions, _ := strings.Cut(text, ":")
	switch kind {
	case RankLexicographic:
		return ranking{kind: rankLexicographic}
	case RankPriority:
		return ranking{kind: rankPriority}
	case RankRegion:
		return ranking{rankRegion, strings.Split(regions, ",")}
	case RankLatency:
		return ranking{kind: rankLatency}
	}

	return ranking{}
}

// standing is what a candidate is ranked by.
type standing struct {
	id    string
	place int // the lower, the better; what it means depends on the rank
}

// place returns the place of a member under the rank.
func (k *ranking) place(priority int, region string, latency time.Duration) int {
	switch k.kind {
	case rankPriority:
		return ^priority // which turns the order round, for every priority
	case rankRegion:
		if i := slices.Index(k.regions, region); i >= 0 {
			return i
		}

		return len(k.regions)
	case rankLatency:
		return latencyPlace(latency)
	}

	return 0
}

// compare is negative if a should lead rather than b.
func (k *ranking) compare(a, b standing) int {
	if k.kind == rankLexicographic {
		return strings.Compare(a.id, b.id)
	}

	return cmp.Compare(a.place, b.place)
}

// self is where this member stands.
func (c *Core) self() standing {
	return standing{c.cfg.ID, c.rank.place(c.cfg.Priority, c.cfg.Region, c.latency)}
}

// manyFree is from how many elections on a member shares them with the other candidates rather than take all.
const manyFree = 64

// crowded reports whether many elections are free at once: those that were judged free or were never judged, or those
// of a member whose heartbeat has ended.
func (c *Core) crowded(e *election) bool {
	if c.loose > manyFree {
		return true
	}

	i, ok := c.sighted[e.rec.Via]
	return ok && len(c.sights.all[i].deps) > manyFree
}

// judged notes whether an election was judged free.
func (c *Core) judged(e *election, free bool) {
	if e.loose != free {
		e.loose = free
		if free {
			c.loose++
		} else {
			c.loose--
		}
	}
}

// prefers reports whether this member should claim a free election now, rather than leave it to a better candidate. If
// not, the election is advanced again when that may have changed.
func (c *Core) prefers(e *election) bool {
	crowded := c.crowded(e)
	switch {
	case e.rec.Next == c.cfg.ID || c.rank.kind == rankFirst && !crowded:
		return true
	case c.rank.kind == rankFirst:
		return c.takesShare(e)
	}

	until := c.headStart(e, &e.rec).Add(c.headStartTime())
	if c.now >= until || (c.firstWatcher(e) || c.bestLately(e)) && !crowded {
		return true
	}

	if !c.recent() && !c.outrankedLately(e) {
		e.wake(until)
		c.awaitList(&e.entity)
		c.listBetter(e, crowded)
		return false
	}

	if c.recent() && !c.yields(e) {
		return true
	}

	c.giveWay(e, until)
	return false
}

// giveWay leaves a free election to another candidate until then, or until another list shows something else.
func (c *Core) giveWay(e *election, until Time) {
	e.wake(until)
	c.awaitList(&e.entity)
	if c.spreads() { // however many join meanwhile
		e.standBack = min(c.now.Add(c.spread()+c.phaseOf(c.spread())), until)
		e.check = e.standBack // most likely it is held by then: a read costs less than another list
		e.pollAt = max(e.pollAt, e.standBack)
		e.wake(e.standBack)
	}
}

// headStartTime is how long better candidates have. Those of a fleet may have to poll to find out.
func (c *Core) headStartTime() time.Duration {
	if !c.spreads() {
		return c.cfg.HeartbeatInterval
	}

	return max(c.cfg.HeartbeatInterval, c.cfg.ElectionInterval, c.cfg.LeaseDuration/3) + c.spread()/3
}

// headStart is from when on better candidates, and a named successor, have their time to claim a free election.
func (c *Core) headStart(e *election, r *driver.Record) Time {
	since := c.now
	if e.open {
		since = e.openSince
	}

	if end := c.coldStartEnd(e); end > 0 && r.Next != c.cfg.ID {
		since = max(since, end.Add(2*c.spread())) // when everybody had a turn
	}

	return since
}

// yields reports whether another candidate should have the election rather than this one, by rank.
func (c *Core) yields(e *election) bool {
	best := c.roster.best(e.name, e.lastHeld.Holder) // but for who has just released it, and may not have left yet
	return best != nil && c.rank.compare(best.standing, c.self()) < 0
}

// successor is the ID of the best healthy candidate for an election but this member.
func (c *Core) successor(name string) string {
	if best := c.roster.best(name, driver.Identity{}); best != nil {
		return best.id
	}

	return ""
}

// outranks reports whether this member outranks the leader of an election, and nobody else who would take the election
// outranks this member.
func (c *Core) outranks(e *election) bool {
	leader := c.roster.peer(driver.MemberRegister(e.rec.Holder.ID))
	if leader == nil || !leader.live || !c.rank.clearlyBetter(c.self(), leader.standing) {
		return false
	}

	best := c.roster.best(e.name, leader.who)
	return best == nil || c.rank.compare(c.self(), best.standing) <= 0
}

// Candidate is what a member is ranked by.
type Candidate struct {
	ID       string
	Priority int
	Region   string
	Latency  float64 // milliseconds, as published; 0 if not measured
}

// CompareCandidates is negative if a should lead rather than b under a rank, and 0 if neither is preferred. The rank
// must be valid.
func CompareCandidates(rank string, a, b Candidate) int {
	k := parseRank(rank)
	return k.compare(standing{a.ID, k.place(a.Priority, a.Region, readLatency(a.Latency))},
		standing{b.ID, k.place(b.Priority, b.Region, readLatency(b.Latency))})
}

// notBefore is the time from which this member may claim a free record. It is a courtesy; what is safe was decided
// before.
func (c *Core) notBefore(e *election, r *driver.Record) Time {
	at := max(e.barred, e.standBack)
	if r.Next != c.cfg.ID { // whoever is asked for does not hold back
		at = max(at, e.holdBack)
		if end := c.coldStartEnd(e); end > 0 {
			at = max(at, end.Add(c.turn()))
		}
	}

	if c.returned(r) || r.Next != "" && r.Next != anyone && r.Next != c.cfg.ID {
		at = max(at, c.headStart(e, r).Add(c.cfg.HeartbeatInterval))
	}

	return at
}

// returned reports whether the holder of a record has joined again before anybody took over: it has a head start,
// unless a rank decides who should lead.
func (c *Core) returned(r *driver.Record) bool {
	i, ok := c.sighted[r.Via]
	if !ok || r.Vacant() || r.Holder.ID == c.cfg.ID || c.rank.kind != rankFirst {
		return false
	}

	now := c.sights.all[i].watch.rec.Holder
	return now.ID == r.Holder.ID && now != r.Holder
}
