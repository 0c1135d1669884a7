package regent_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// firsts records when each client sent its first request.
type firsts struct {
	mu    sync.Mutex
	start time.Time
	at    map[string]time.Duration
}

// of returns when each client began, once nothing moves.
func (f *firsts) of() map[string]time.Duration {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.at)
}

func watchFirsts(s *memstore.Store) *firsts {
	f := &firsts{start: time.Now(), at: map[string]time.Duration{}}
	s.OnRequest = func(r memstore.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if _, ok := f.at[r.Client]; !ok {
			f.at[r.Client] = r.At.Sub(f.start)
		}
	}
	return f
}

func jitter(low, high time.Duration) func(*regent.Member) {
	return config(regent.Fleet(), func(c *regent.Config) { c.StartupJitterMin, c.StartupJitterMax = low, high })
}

func TestJitter(t *testing.T) {
	const second = time.Second
	for _, tt := range []struct {
		name      string
		conf      func(*regent.Member)
		low, high time.Duration
	}{
		{"J01_fleet_defaults_wait_up_to_5s_before_any_request", config(regent.Fleet()), 0, 5 * second},
		{"J02_a_range_is_kept", jitter(2*second, 8*second), 2 * second, 8 * second},
		{"J03_a_maximum_of_zero_means_no_wait", jitter(0, 0), 0, 0},
		{"J04_equal_bounds_are_exact", jitter(3*second, 3*second), 3 * second, 3 * second},
		{"J14_without_configuration_the_profile_default_works", config(regent.Cluster()), 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				f := watchFirsts(c.store)
				var nodes []*node
				for i := range 30 {
					nodes = append(nodes, c.member(fmt.Sprintf("n%02d", i), tt.conf).lead())
				}

				leader(t, tt.high+8*second, nodes...)
				time.Sleep(10 * second)
				low, high := 100*second, -second
				for _, at := range f.of() {
					low, high = min(low, at), max(high, at)
				}
				if len(f.of()) != 30 || low < tt.low || high > tt.high {
					t.Errorf("first requests of %d nodes between %v and %v", len(f.of()), low, high)
				}
				if spread := tt.high - tt.low; high-low < spread/2 {
					t.Errorf("first requests spread over %v only", high-low)
				}
				for _, n := range nodes {
					n.quit()
				}
			})
		})
	}

	t.Run("J08_heartbeats_are_regular", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var beats []time.Time
			c.store.OnRequest = func(r memstore.Request) {
				if r.Kind == memstore.Swap && r.Name == driver.MemberRegister("a") {
					beats = append(beats, r.At)
				}
			}
			a := c.member("a", config(regent.Fleet())).lead()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			for i := 1; i < len(beats); i++ {
				if d := beats[i].Sub(beats[i-1]); d != 5*second {
					t.Errorf("heartbeat %d came after %v", i, d)
				}
			}

			if len(beats) < 20 {
				t.Errorf("%d heartbeats in two minutes", len(beats))
			}

			a.quit()
		})
	})

	t.Run("J09_a_renewal_comes_at_80_percent_at_the_latest_and_is_not_jittered", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var beats []time.Time
			c.store.OnRequest = func(r memstore.Request) {
				if r.Kind == memstore.Swap && r.Name == driver.MemberRegister("a") {
					beats = append(beats, r.At)
				}
			}
			a := c.member("a", config(regent.Fleet(), func(c *regent.Config) {
				c.HeartbeatInterval,
					c.RenewInterval = 18*second, 18*second
			})).lead()
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			trust := 20*second - 40*time.Millisecond - second
			for i := 1; i < len(beats); i++ {
				if d := beats[i].Sub(beats[i-1]); d != trust*8/10 {
					t.Errorf("heartbeat %d came after %v, want %v", i, d, trust*8/10)
				}
			}

			a.quit()
		})
	})

	t.Run("J10_a_second_start_waits_again", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", jitter(3*second, 3*second))
			for range 2 {
				f := watchFirsts(c.store)
				a.lead()
				time.Sleep(10 * second)
				if at := f.of()["a"]; at != 3*second {
					t.Errorf("first request after %v", at)
				}

				a.quit()
			}
		})
	})

	t.Run("C17_a_loop_that_died_starts_again_without_jitter", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			bomb := &panicking{}
			a := c.member("a", jitter(30*second, 30*second),
				func(m *regent.Member) { bomb.Store = m.Store; m.Store = bomb }).lead()
			leader(t, time.Minute, a)
			bomb.armed.Store(true)
			for len(a.kinds(regent.EventCandidateRestarted)) == 0 {
				time.Sleep(time.Millisecond)
			}

			leader(t, 2*second, a)
			a.quit()
		})
	})

	t.Run("J12_five_workers_without_jitter_elect_faster", func(t *testing.T) {
		elect := func(conf func(*regent.Member)) (took time.Duration) {
			bubble(t, func(c *cluster) {
				var nodes []*node
				for i := range 5 {
					nodes = append(nodes, c.member(fmt.Sprint("n", i), conf).lead())
				}

				_, took = leader(t, 20*second, nodes...)
				for _, n := range nodes {
					n.quit()
				}
			})

			return took
		}
		if without, with := elect(jitter(0, 0)), elect(config(regent.Fleet())); without >= with || without > 2*second {
			t.Errorf("%v without jitter, %v with", without, with)
		}
	})
}
