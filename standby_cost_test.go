package regent_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// traffic counts the requests to a store by what they are for, and those of each client.
type traffic struct {
	mu    sync.Mutex
	since time.Time
	sent  map[string]int            // by what they are for
	by    map[string]map[string]int // by client, then by what they are for
}

// What requests are for.
const (
	heartbeats = "heartbeats" // a member writes its own register
	ownReads   = "own reads"  // a member reads its own register
	polls      = "polls"      // the record of the election is read
	watches    = "watches"    // the register of another member is read
	lists      = "lists"
	others     = "others"
)

// watchTraffic counts from now on. No member runs yet.
func watchTraffic(s *memstore.Store) *traffic {
	f := &traffic{}
	f.restart()
	s.OnRequest = func(r memstore.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()

		what := purpose(r)
		f.sent[what]++
		if f.by[r.Client] == nil {
			f.by[r.Client] = map[string]int{}
		}
		f.by[r.Client][what]++
	}

	return f
}

func purpose(r memstore.Request) string {
	own := r.Name == driver.MemberRegister(r.Client)
	switch {
	case r.Kind == memstore.List:
		return lists
	case own && r.Kind == memstore.Swap:
		return heartbeats
	case own && r.Kind == memstore.Get:
		return ownReads
	case r.Kind == memstore.Get && strings.HasPrefix(r.Name, driver.MemberPrefix):
		return watches
	case r.Kind == memstore.Get && r.Name == "seat":
		return polls
	}

	return others
}

// restart counts anew from now on.
func (f *traffic) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.since = time.Now()
	f.sent = map[string]int{}
	f.by = map[string]map[string]int{}
}

// reads returns how often a member has read its leader's heartbeat and the election.
func (f *traffic) reads(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.by[id][watches] + f.by[id][polls]
}

// rates are requests per second.
type rates struct {
	of     map[string]float64 // by what they are for
	beyond float64            // all but heartbeats
	leader float64            // the leader's own, but for its heartbeats
	top    float64            // those of the standby that sends the most, but for its heartbeats
	mean   float64            // those of all standbys divided by their number, but for their heartbeats
}

// rates returns what was counted, per second.
func (f *traffic) rates(leader string) rates {
	f.mu.Lock()
	defer f.mu.Unlock()

	seconds := time.Since(f.since).Seconds()
	r := rates{of: map[string]float64{}}
	for what, n := range f.sent {
		r.of[what] = float64(n) / seconds
		if what != heartbeats {
			r.beyond += r.of[what]
		}
	}

	for id, sent := range f.by {
		all := 0
		for what, n := range sent {
			if what != heartbeats {
				all += n
			}
		}

		if id == leader {
			r.leader = float64(all) / seconds
		} else {
			r.top = max(r.top, float64(all)/seconds)
		}
	}

	if n := len(f.by) - 1; n > 0 {
		r.mean = (r.beyond - r.leader) / float64(n)
	}

	return r
}

func (r rates) String() string {
	return fmt.Sprintf("heartbeats %.2f/s, all other %.2f/s (watches %.2f, polls %.2f, lists %.2f, own reads %.2f, "+
		"others %.2f); the leader %.2f, a standby %.4f, the busiest %.2f",
		r.of[heartbeats], r.beyond, r.of[watches], r.of[polls], r.of[lists], r.of[ownReads], r.of[others],
		r.leader, r.mean, r.top)
}

// check fails if a fleet of that size in which nothing changes sends too much: all requests but heartbeats are one a
// second for 20 members, for fleets that are no smaller than the goal of 200, and neither the leader nor a standby
// sends more because there are more members.
func (r rates) check(t *testing.T, size int) {
	t.Helper()

	if size >= 100 && r.beyond > float64(size)/20 {
		t.Errorf("%.2f requests a second beyond heartbeats, want at most %.2f", r.beyond, float64(size)/20)
	}
	if r.leader > 0.25 || r.top > 0.4 {
		t.Errorf("the leader sends %.2f requests a second and the busiest standby %.2f", r.leader, r.top)
	}
}

// fleetSizes returns how many members the figures of docs/BENCHMARKS.md are for: those that REGENT_MEMBERS names, or
// those that a test of every day takes.
func fleetSizes(t *testing.T) []int {
	t.Helper()

	text := os.Getenv("REGENT_MEMBERS")
	if text == "" {
		return []int{1, 10, 50, 200}
	}

	var sizes []int
	for _, s := range strings.Split(text, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("REGENT_MEMBERS %q: must be numbers of at least 1, separated by commas", text)
		}

		sizes = append(sizes, n)
	}

	return sizes
}

// TestStandbyCost counts what a fleet sends to a store without push, at its start and when nothing changes.
func TestStandbyCost(t *testing.T) {
	for _, size := range fleetSizes(t) {
		t.Run(fmt.Sprintf("a_fleet_of_%d", size), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				f := watchTraffic(c.store)
				nodes := startFleet(c, size, config(regent.Fleet()), withoutPush)

				time.Sleep(15 * time.Second)
				t.Logf("start:  %v", f.rates("n000"))

				time.Sleep(10 * time.Minute) // until all know what there is to know
				f.restart()
				time.Sleep(20 * time.Minute)
				r := f.rates("n000")
				t.Logf("steady: %v", r)
				r.check(t, size)
				quitAll(nodes)
			})
		})
	}
}
