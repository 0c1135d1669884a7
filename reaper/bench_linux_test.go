package reaper

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
)

// BenchmarkKilled is the time from kill -9 of the leader until a standby leads, at a lease of ten minutes. All are real
// processes, and so are the stores: SQLite takes no notice of deaths here, and Redis never does.
func BenchmarkKilled(b *testing.B) {
	const children = "sleep 1000 & sleep 1000 & timeout 1000 sleep 1000 & echo 0; wait"
	for _, store := range []string{"sqlite", "redis"} {
		for _, c := range []struct {
			name, shell string
			cfg         regent.Config
		}{
			{"own_lease", "", regent.Lock()},
			{"by_heartbeat", "", long(regent.Cluster())},
			{"own_lease_and_a_command_with_children", children, regent.Lock()},
		} {
			b.Run(store+"/"+c.name, func(b *testing.B) {
				killed(b, group{b, stores()[store](b), c.cfg}, c.shell)
			})
		}
	}
}

// killed kills one leader after the other.
func killed(b *testing.B, g group, shell string) {
	leader := g.start("a", shell)
	leader.settled(shell)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		standby := g.start(string(rune('b'+i%20)), shell)
		standby.standsBy()
		at := leader.kill(syscall.SIGKILL)
		led := standby.await(within, func(r report) bool { return r.Kind == string(regent.EventBecameLeader) })
		took = append(took, led.At-at)
		leader.ended()
		leader = standby
		leader.settled(shell)
	}

	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000 }
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(at(1), "max-ms")
	b.ReportMetric(0, "ns/op")
}

// settled waits until it leads, its command runs, and its reaper has opened the store.
func (n *node) settled(shell string) {
	n.t.Helper()
	if shell != "" {
		n.says("pid")
	}

	n.reaper()
	if !n.open {
		n.logged("store is open")
		n.open = true
	}
}
