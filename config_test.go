package regent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

func TestConfig(t *testing.T) {
	t.Run("the_profiles_are_valid", func(t *testing.T) {
		for _, c := range []regent.Config{regent.Cluster(), regent.Lock(), regent.Fleet()} {
			if err := c.Validate(); err != nil {
				t.Error(err)
			}
		}
	})

	const ms = time.Millisecond
	bad := []struct {
		name, key, want string
		change          func(*regent.Config)
	}{
		{"J05_a_negative_jitter", "startupJitterMin", "startupJitterMin -100ms: startupJitterMin cannot be negative",
			func(c *regent.Config) { c.StartupJitterMin = -100 * ms }},
		{"J06_a_jitter_range_that_is_upside_down", "startupJitterMax",
			"startupJitterMax 1s: startupJitterMax must be >= startupJitterMin (5s)",
			func(c *regent.Config) { c.StartupJitterMin, c.StartupJitterMax = 5000*ms, 1000*ms }},
		{"C22_a_lease_shorter_than_the_heartbeat", "leaseDuration", "which must be above heartbeatInterval (1.5s)",
			func(c *regent.Config) { c.LeaseDuration = 2 * time.Second }},
		{"C22_a_lease_without_a_unit", "leaseDuration",
			"must be at least 20ms (a number without a unit is in milliseconds)",
			func(c *regent.Config) { c.LeaseDuration = 6 * ms }},
		{"C22_a_lease_that_is_not_there", "leaseDuration", "must be positive (start from a profile",
			func(c *regent.Config) { c.LeaseDuration = 0 }},
		{"C22_a_stop_timeout_that_eats_the_lease", "leaseDuration", "less 0.2 % and stopTimeout (5s) leaves 988ms",
			func(c *regent.Config) { c.StopTimeout = 5 * time.Second }},
		{"C22_a_renewal_of_its_own_beside_the_heartbeat", "renewInterval", "must equal heartbeatInterval",
			func(c *regent.Config) { c.RenewInterval = 2 * time.Second }},
		{"C22_an_unknown_rank", "rank", "must be first, lexicographic, priority, latency, or region:",
			func(c *regent.Config) { c.Rank = "seniority" }},
		{"C22_a_rank_by_no_region", "rank", "followed by regions", func(c *regent.Config) { c.Rank = "region:" }},
		{"C22_a_negative_delay", "takeoverDelay", "cannot be negative",
			func(c *regent.Config) { c.TakeoverDelay = -1 }},
		{"C22_a_backoff_of_nothing", "renewBackoff", "must hold durations of at least 20ms only",
			func(c *regent.Config) { c.RenewBackoff[1] = 0 }},
		{"a_backoff_that_hammers", "renewBackoff", "must hold durations of at least 20ms only",
			func(c *regent.Config) { c.RenewBackoff[1] = 19 * ms }},
		{"a_poll_that_hammers", "electionInterval", "electionInterval 1ns: electionInterval must be at least 20ms",
			func(c *regent.Config) { c.ElectionInterval = 1 }},
		{"a_heartbeat_that_hammers", "heartbeatInterval",
			"heartbeatInterval 19ms: heartbeatInterval must be at least 20ms",
			func(c *regent.Config) { c.HeartbeatInterval = 19 * ms }},
		{"a_renewal_that_hammers", "renewInterval", "renewInterval 19ms: renewInterval must be at least 20ms",
			func(c *regent.Config) { c.RenewInterval, c.OwnLease = 19*ms, true }},
		{"a_worker_timeout_of_nothing", "workerTimeout", "workerTimeout 1ns: workerTimeout must be at least 20ms",
			func(c *regent.Config) { c.WorkerTimeout = 1 }},
		{"C22_a_poll_maximum_below_the_poll", "electionIntervalMax", "must be >= electionInterval (5s)",
			func(c *regent.Config) { c.ElectionIntervalMax = time.Second }},
		{"labels_that_no_register_holds", "labels",
			"labels of 17011 bytes: labels must take at most 16384 bytes as JSON",
			func(c *regent.Config) { c.Labels = map[string]string{"rack": strings.Repeat("x", 17000)} }},
		{"a_region_that_no_register_holds", "region",
			"region of 2002 bytes: region must take at most 1024 bytes as JSON",
			func(c *regent.Config) { c.Region = strings.Repeat("x", 2000) }},
		{"C22_contention_below_one", "contentionThreshold", "must be above 1",
			func(c *regent.Config) { c.ContentionThreshold = 0.5 }},
	}
	for _, b := range bad {
		t.Run(b.name+"_is_refused", func(t *testing.T) {
			c := regent.Cluster()
			b.change(&c)
			store := memstore.New()
			m := &regent.Member{Store: store, Config: c}
			err := m.Lead(t.Context(), "seat", func(context.Context, regent.Term) error { return nil })
			var ce *regent.ConfigError
			if !errors.As(err, &ce) || ce.Key != b.key || !strings.Contains(err.Error(), b.want) {
				t.Errorf("got %q, want the key %s and %q", err, b.key, b.want)
			}
			if n := store.Counts().Total(); n != 0 {
				t.Errorf("%d requests reached the store", n)
			}
		})
	}

	t.Run("J07_no_jitter_is_accepted", func(t *testing.T) {
		c := regent.Fleet()
		c.StartupJitterMin, c.StartupJitterMax = 0, 0
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	})

	t.Run("a_rank_by_regions_names_them", func(t *testing.T) {
		c := regent.Cluster()
		c.Rank = regent.RankRegions("eu-west", "eu-central")
		if err := c.Validate(); err != nil || c.Rank != "region:eu-west,eu-central" {
			t.Errorf("rank is %q: %v", c.Rank, err)
		}
		for _, none := range []regent.Rank{regent.RankRegions(), regent.RankRegions("eu", ""), "region"} {
			c.Rank = none
			if c.Validate() == nil {
				t.Errorf("%q is valid", none)
			}
		}
	})

	t.Run("every_violated_rule_is_named", func(t *testing.T) {
		c := regent.Cluster()
		c.TakeoverDelay, c.StartupJitterMin = -1, -1
		err := c.Validate()
		for _, key := range []string{"takeoverDelay", "startupJitterMin"} {
			if err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("%q does not name %s", err, key)
			}
		}
	})
}
