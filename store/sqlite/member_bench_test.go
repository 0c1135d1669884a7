//go:build linux

package sqlite

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
	"golang.org/x/sys/unix"
)

// These benchmarks measure the whole library on this store, with real processes and real time.

// holding waits until the member has begun so many terms.
func holding(m *regent.Member, terms int) {
	for m.Stats().Transitions < uint64(terms) {
		time.Sleep(time.Millisecond)
	}
}

// BenchmarkLead is one term: from the call of Lead, with a duty that returns at once, until the seat is released. It is
// compared with two raw updates.
func BenchmarkLead(b *testing.B) {
	nothing := func(context.Context, regent.Term) error { return nil }
	for _, c := range []struct {
		name    string
		cfg     regent.Config
		running bool // another seat keeps the member running
	}{
		{"own_lease", regent.Lock(), true},
		{"own_lease_and_start_and_stop_the_member", regent.Lock(), false},
		{"by_member_heartbeat", regent.Cluster(), true},
	} {
		b.Run(c.name, func(b *testing.B) {
			store, floor := fresh(b), rawUpdates(b)
			m := &regent.Member{Store: store, ID: "a", Config: c.cfg}
			if c.running {
				storetest.RunMember(b, m, regent.Duty{Election: "seat/other"})
				holding(m, 1)
			}

			storetest.Compare(b, func() {
				if err := m.Lead(b.Context(), "seat/one", nothing); err != nil {
					b.Fatal(err)
				}
			}, func() { floor(2) })
		})
	}
}

// counted counts the requests to a store, and reports every heartbeat. A batch is one request.
type counted struct {
	*Store
	requests atomic.Int64
	beats    chan struct{}
}

func (c *counted) Get(ctx context.Context, name string) (driver.Record, error) {
	c.requests.Add(1)
	return c.Store.Get(ctx, name)
}

func (c *counted) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	c.requests.Add(1)
	if l.Name == driver.MemberRegister("a") {
		select {
		case c.beats <- struct{}{}:
		default:
		}
	}
	return c.Store.Swap(ctx, l)
}

func (c *counted) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	c.requests.Add(1)
	return c.Store.SwapAll(ctx, ls)
}

func (c *counted) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	c.requests.Add(1)
	return c.Store.List(ctx, prefix)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func manySeats(n int) []regent.Duty {
	duties := make([]regent.Duty, n)
	for i := range duties {
		duties[i].Election = fmt.Sprintf("seat/%05d", i)
	}
	return duties
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// BenchmarkHeld is the cost of holding many elections in one process, with everything that the library and the driver
// keep of them.
func BenchmarkHeld(b *testing.B) {
	for _, n := range []int{1, 1000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				benchmarkHeld(b, n)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func benchmarkHeld(b *testing.B, n int) {
	const heartbeats = 12
	cfg := regent.Cluster()
	cfg.HeartbeatInterval, cfg.RenewInterval = 200*time.Millisecond, 200*time.Millisecond
	cfg.Register = true
	store := &counted{Store: fresh(b), beats: make(chan struct{}, 1)}
	m := &regent.Member{Store: store, ID: "a", Config: cfg}

	// The baseline is a member that is there and holds nothing.
	next, leave := iter.Pull2(m.Watch(b.Context(), "seat/other"))
	next()
	<-store.beats
	empty := heap()
	began := time.Now()

	stop := storetest.RunMember(b, m, manySeats(n)...)
	holding(m, n)
	b.ReportMetric(ms(time.Since(began)), "acquire-all-ms")
	leave() // otherwise it would go on polling the seat that it watches

	<-store.beats // what follows the claims is over
	<-store.beats
	if n > 1 { // otherwise it is noise
		b.ReportMetric(float64(heap()-empty)/float64(n), "B/election")
	}

	b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")

	<-store.beats
	requests := store.requests.Load()
	cpu := cpuTime()
	began = time.Now()
	for range heartbeats {
		<-store.beats
	}

	requests, cpu = store.requests.Load()-requests, cpuTime()-cpu
	b.ReportMetric(float64(requests)/heartbeats, "requests/heartbeat")
	b.ReportMetric(float64(requests)/time.Since(began).Seconds(), "requests/s")
	b.ReportMetric(float64(cpu.Microseconds())/heartbeats, "cpu-µs/heartbeat")

	began = time.Now()
	stop()
	b.ReportMetric(ms(time.Since(began)), "release-all-ms")
}

func reportTakeovers(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	at := func(p int) float64 { return ms(took[(len(took)*p+99)/100-1]) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(at(50), "p50-ms")
	b.ReportMetric(at(99), "p99-ms")
	b.ReportMetric(ms(took[0]), "min-ms")
	b.ReportMetric(ms(took[len(took)-1]), "max-ms")
	b.ReportMetric(float64(len(took)), "rounds")
}

// startPair starts a leader and a standby, each in a process.
func startPair(b *testing.B, path string) (leader, standby *child) {
	b.Helper()
	leader = startMember(b, path, "a", "push", 0)
	standby = startMember(b, path, "b", "push", 0)
	leader.order(b, "campaign")
	leader.says(b, "leads")
	standby.order(b, "campaign")
	standby.says(b, "follows")
	return leader, standby
}

// BenchmarkTakeover is the time without a leader, between two processes: from when the leader is ordered to release, or
// is killed, until the other's duty runs.
func BenchmarkTakeover(b *testing.B) {
	b.Run("after_release", func(b *testing.B) {
		path := fresh(b).path
		leader, standby := startPair(b, path)

		var took []time.Duration
		for b.Loop() {
			for range 200 {
				leader.order(b, "release")
				released, led := leader.says(b, "releases"), standby.says(b, "leads")
				took = append(took, time.Duration(led[0]-released[0]))
				leader.order(b, "campaign")
				leader.says(b, "follows")
				leader, standby = standby, leader
			}
		}

		reportTakeovers(b, took)
	})

	b.Run("after_kill", func(b *testing.B) {
		path := fresh(b).path
		leader, standby := startPair(b, path)

		var took []time.Duration
		leading, following := "a", "b"
		for b.Loop() {
			for range 30 {
				killed := monotonic()
				leader.kill(b)
				took = append(took, time.Duration(standby.says(b, "leads")[0]-killed))
				leader.awaitExit()
				leader = startMember(b, path, leading, "push", 0) // the same ID, as after a restart
				leader.order(b, "campaign")
				leader.says(b, "follows")
				leader, standby = standby, leader
				leading, following = following, leading
			}
		}

		reportTakeovers(b, took)
	})
}

// BenchmarkSpread kills a process that holds 10,000 seats. It measures how long it takes until two others hold them
// all, and how many each.
func BenchmarkSpread(b *testing.B) {
	const n = 10_000
	var took, worst time.Duration
	var less int64
	for b.Loop() {
		store := fresh(b)
		dying := startMember(b, store.path, "a", "push", n)
		for dying.says(b, "holds")[0] < n {
		}

		heirs := []*child{startMember(b, store.path, "b", "push", n), startMember(b, store.path, "c", "push", n)}
		type holds struct{ heir, seats, at int64 }
		said := make(chan holds, 1000)
		for i, c := range heirs {
			c.says(b, "follows")
			go func() {
				for c.out.Scan() {
					h := holds{heir: int64(i)}
					fmt.Sscanf(c.out.Text(), "holds %d %d", &h.seats, &h.at)
					said <- h
				}
			}()
		}

		var has [2]int64
		killed := monotonic()
		dying.kill(b)
		for has[0]+has[1] < n {
			h := <-said
			has[h.heir], took = h.seats, time.Duration(h.at-killed)
		}

		worst, less = max(worst, took), min(has[0], has[1])
		shown := map[string]int{}
		for l, err := range store.List(b.Context(), "seat/") {
			if err != nil {
				b.Fatal(err)
			}
			shown[l.Holder.ID]++
		}

		if shown["b"]+shown["c"] != n {
			b.Fatalf("held by %v", shown)
		}

		for _, c := range append(heirs, dying) {
			_ = c.cmd.Process.Kill()
			c.awaitExit()
		}
	}

	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(worst), "all-held-ms")
	b.ReportMetric(float64(less), "seats-of-the-lesser")
}

// BenchmarkIdle is the processor time of a standby while nothing happens, with notifications of the store and without.
// A leader and both standbys send heartbeats meanwhile.
func BenchmarkIdle(b *testing.B) {
	const window = 6 * time.Second
	path := fresh(b).path
	leader := startMember(b, path, "a", "push", 0)
	leader.order(b, "campaign")
	leader.says(b, "leads")
	kinds := []string{"push", "polls"}

	var standbys []*child
	for _, kind := range kinds {
		c := startMember(b, path, kind, kind, 0)
		c.order(b, "campaign")
		c.says(b, "follows")
		standbys = append(standbys, c)
	}

	cpu := func(c *child) time.Duration {
		c.order(b, "cpu")
		return time.Duration(c.says(b, "cpu")[0])
	}

	var spent [2]time.Duration
	windows := 0
	for b.Loop() {
		var before [2]time.Duration
		for i, c := range standbys {
			before[i] = cpu(c)
		}

		time.Sleep(window)
		for i, c := range standbys {
			spent[i] += cpu(c) - before[i]
		}

		windows++
	}

	b.ReportMetric(0, "ns/op")
	for i, kind := range kinds {
		b.ReportMetric(float64(spent[i].Microseconds())/(window.Seconds()*float64(windows)), kind+"-µs/s")
	}
}
