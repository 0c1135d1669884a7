package doctor

import (
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/cost"
	"github.com/regentd/regent/driver"
)

// healthInterval is how often the leader of 'regent serve' lists the members.
const healthInterval = 30 * time.Second

// watchers is how many standbys watch a leader closely.
const watchers = 3

// Cost is what a fleet on a bucket sends while nothing changes, and what that costs.
type Cost struct {
	Members         int     `json:"members"`
	PutPerSecond    float64 `json:"putPerSecond"`
	GetPerSecond    float64 `json:"getPerSecond"`
	ListPerSecond   float64 `json:"listPerSecond"`
	DollarsPerMonth float64 `json:"dollarsPerMonth"` // of 30 days
}

// AddCost adds what that many members on a bucket send and cost.
func (r *Report) AddCost(members int, c regent.Config) {
	fleet := cost.Fleet{
		Members: members, LeaseDuration: c.LeaseDuration, HeartbeatInterval: c.HeartbeatInterval,
		ElectionInterval: c.ElectionInterval, HealthInterval: healthInterval, Watchers: watchers,
		IdleInterval: cost.IdleInterval(members, c.LeaseDuration), SkimAge: driver.SkimAge(members),
	}
	requests := fleet.PerSecond()
	dollars := cost.AmazonS3.PerMonth(requests)
	r.Cost = &Cost{members, requests.Put, requests.Get, requests.List, dollars}

	prices := cost.AmazonS3
	r.Add("cost", OK, "to pay less, raise heartbeatInterval, electionInterval and leaseDuration; --members computes "+
		"it for another number",
		"%d members in which nothing changes send %.1f PUT, %.1f GET and %.2f LIST a second: about $%.0f in 30 days, "+
			"at $%g for 1,000 PUT or LIST and $%g for 1,000 GET (assumed: S3 Standard in us-east-1)",
		members, requests.Put, requests.Get, requests.List, dollars, prices.Put, prices.Get)
}
