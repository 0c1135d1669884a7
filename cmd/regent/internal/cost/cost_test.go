package cost_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/cost"
	"github.com/regentd/regent/driver"
)

// serve is a fleet of 'regent serve' with the defaults of profile fleet.
func serve(members int, change ...func(*cost.Fleet)) cost.Fleet {
	c := regent.Fleet()
	f := cost.Fleet{
		Members: members, LeaseDuration: c.LeaseDuration, HeartbeatInterval: c.HeartbeatInterval,
		ElectionInterval: c.ElectionInterval, HealthInterval: 30 * time.Second,
	}
	for _, ch := range change {
		ch(&f)
	}
	return f
}

func near(got, want float64) bool { return math.Abs(got-want) < 1e-9 }

func TestPerSecond(t *testing.T) {
	few := func(f *cost.Fleet) {
		f.Watchers = 3
		f.IdleInterval = 200 * time.Second
	}
	for name, c := range map[string]struct {
		fleet cost.Fleet
		want  cost.Requests
	}{
		"nobody":            {cost.Fleet{}, cost.Requests{}},
		"one_member":        {serve(1), cost.Requests{Put: 0.2, Get: 0.1, List: 1. / 30}},
		"all_watch_closely": {serve(201), cost.Requests{Put: 40.2, Get: 0.1 + 200*0.35 + 200./30, List: 1. / 30}},
		"few_watch_closely": {serve(201, few), cost.Requests{Put: 40.2, Get: 0.1 + 3*0.35 + 197*3./200 + 200./30,
			List: 1./30 + 0.1}},
		"fewer_than_may_watch_closely": {serve(3, few), cost.Requests{Put: 0.6, Get: 0.1 + 2*0.35 + 2./30,
			List: 1. / 30}},
		"more_than_a_page": {serve(1001, few), cost.Requests{Put: 200.2, Get: 0.1 + 3*0.35 + 997*3./200 + 1000./30,
			List: 2./30 + 2*0.1}},
		"records_of_some_age": {serve(201, few, func(f *cost.Fleet) { f.SkimAge = 4 * time.Minute }),
			cost.Requests{Put: 40.2, Get: 0.1 + 3*0.35 + 197*3./200 + 200./180, List: 1./30 + 0.1}},
		"without_listings": {serve(2, func(f *cost.Fleet) { f.HealthInterval = 0 }),
			cost.Requests{Put: 0.4, Get: 0.45}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.fleet.PerSecond()
			if !near(got.Put, c.want.Put) || !near(got.Get, c.want.Get) || !near(got.List, c.want.List) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestPerMonth(t *testing.T) {
	// A thousand of each in every second.
	got := cost.AmazonS3.PerMonth(cost.Requests{Put: 1000, Get: 1000, List: 1000})
	if want := (0.005 + 0.0004 + 0.005) * 86400 * 30; !near(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The table of docs/STORES.md is computed.
func TestDocumentedCosts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "STORES.md"))
	if err != nil {
		t.Fatal(err)
	}

	slow := func(f *cost.Fleet) {
		f.HeartbeatInterval = 30 * time.Second
		f.LeaseDuration = 2 * time.Minute
		f.ElectionInterval = 30 * time.Second
	}
	few := func(f *cost.Fleet) {
		f.Watchers = 3
		f.IdleInterval = cost.IdleInterval(f.Members, f.LeaseDuration)
		f.SkimAge = driver.SkimAge(f.Members)
	}
	for _, n := range []int{1, 10, 50, 200, 1000, 10000} {
		usual := serve(n, few).PerSecond()
		rare := serve(n, slow, few).PerSecond()
		row := fmt.Sprintf("| %d | %.1f | %.1f | %.2f | %.0f | %.1f | %.0f |", n, usual.Put, usual.Get, usual.List,
			cost.AmazonS3.PerMonth(usual), rare.Total(), cost.AmazonS3.PerMonth(rare))
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/STORES.md does not have the row\n%s", row)
		}
	}
}
