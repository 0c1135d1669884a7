// Package cost computes what a fleet on a bucket sends while nothing changes, and what that costs.
//
// It counts what docs/STORES.md describes: a heartbeat of every member, the polls of standbys, and the leader's listing
// of the members. It does not count elections, joins, tasks and polls of the PollOrchestrator.
package cost

import (
	"math"
	"time"
)

// Fleet is what decides how many requests a fleet sends.
type Fleet struct {
	Members           int
	LeaseDuration     time.Duration
	HeartbeatInterval time.Duration
	ElectionInterval  time.Duration
	// HealthInterval is the time between two listings by the leader of 'regent serve'. Zero for members of the library
	// and for 'regent run', which have none.
	HealthInterval time.Duration

	// Watchers is how many standbys watch the leader closely. The others read once in an IdleInterval. Zero if all
	// watch closely.
	Watchers     int
	IdleInterval time.Duration
	// SkimAge is how old the record of a member may be that the leader lists: see driver.SkimAge. Zero if the leader
	// reads every record that has changed.
	SkimAge time.Duration
}

// IdleInterval returns the time from one read of a standby to the next that does not watch closely: a second for each
// member, three leases at the least and ten minutes at the most.
func IdleInterval(members int, lease time.Duration) time.Duration {
	least := 3 * lease
	return min(max(time.Duration(members)*time.Second, least), max(least, 10*time.Minute))
}

const (
	// watchesPerLease is how often in a lease a standby that watches closely reads the heartbeat of the leader.
	watchesPerLease = 3
	// idleReads is how many reads it takes a standby that reads seldom to see the leader send a heartbeat.
	idleReads = 3
	// listPage is how many registers one LIST shows.
	listPage = 1000
)

// Requests are requests, by what a bill calls them.
type Requests struct{ Put, Get, List float64 }

// Total is all of them.
func (r Requests) Total() float64 { return r.Put + r.Get + r.List }

// PerSecond returns the requests per second of a fleet that has a leader, and in which nothing changes.
func (f Fleet) PerSecond() Requests {
	if f.Members < 1 {
		return Requests{}
	}

	standbys := float64(f.Members - 1)
	near := standbys
	if f.Watchers > 0 {
		near = min(near, float64(f.Watchers))
	}

	r := Requests{
		Put: float64(f.Members) * rate(f.HeartbeatInterval),
		Get: 2 * rate(f.LeaseDuration), // the leader reads its election every half lease
	}
	r.Get += near * (rate(f.ElectionInterval) + watchesPerLease*rate(f.LeaseDuration))
	r.Get += (standbys - near) * idleReads * rate(f.IdleInterval)

	lists := rate(f.HealthInterval)
	if f.Watchers > 0 && f.Members > f.Watchers+1 {
		lists += 2 * rate(f.LeaseDuration) // for the choice of watchers
	}

	r.List = math.Ceil(float64(f.Members)/listPage) * lists
	if f.SkimAge > 0 {
		r.Get += standbys * rate(f.SkimAge*3/4) // some are read early, so that they are not all read at once
	} else {
		r.Get += standbys * rate(f.HealthInterval) // every register has changed since the last listing
	}

	return r
}

// rate is how often per second something happens that happens once in an interval.
func rate(every time.Duration) float64 {
	if every <= 0 {
		return 0
	}
	return 1 / every.Seconds()
}

// Prices are dollars for 1,000 requests.
type Prices struct{ Put, Get, List float64 }

// AmazonS3 are the prices that are assumed here: S3 Standard in us-east-1. Storage and traffic cost next to nothing: a
// register has less than a kilobyte, and an unchanged one is answered without a body.
var AmazonS3 = Prices{Put: 0.005, Get: 0.0004, List: 0.005}

// month is the month of a bill.
const month = 30 * 24 * time.Hour

// PerMonth returns the dollars for 30 days of such requests per second.
func (p Prices) PerMonth(r Requests) float64 {
	return (r.Put*p.Put + r.Get*p.Get + r.List*p.List) / 1000 * month.Seconds()
}
