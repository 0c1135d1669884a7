package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
)

// compare runs ours and the floor by turns, so that the noise of the machine hits both, and reports both medians and their ratio.
func compare(b *testing.B, ours func(), floor func()) {
	var a, z []time.Duration
	for b.Loop() {
		began := time.Now()
		ours()
		between := time.Now()
		floor()
		a, z = append(a, between.Sub(began)), append(z, time.Since(between))
	}
	slices.Sort(a)
	slices.Sort(z)
	p50, raw := a[len(a)/2], z[len(z)/2]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(p50.Microseconds()), "p50-µs")
	b.ReportMetric(float64(raw.Microseconds()), "raw-p50-µs")
	b.ReportMetric(float64(p50)/float64(raw), "ratio")
	b.ReportMetric(float64(a[0])/float64(z[0]), "min-ratio")
	b.ReportMetric(testing.AllocsPerRun(200, ours), "allocs")
	b.ReportMetric(testing.AllocsPerRun(200, floor), "raw-allocs")
}

func swap(t testing.TB, s *Store, l regent.Lease) regent.Lease {
	t.Helper()
	got, err := s.Swap(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func held(name, holder string, nonce uint64) regent.Lease {
	return regent.Lease{
		Name: name, Holder: regent.Identity{ID: holder, Incarnation: "CDIGDVLEQWFXE5MCUK3YPTTXAY"}, Addr: "10.0.0.1:7000", Epoch: 1, Nonce: nonce,
		Duration: 30 * time.Second, Since: time.Now(),
	}
}

// BenchmarkSwap is beside the same client with the same settings, and the plainest lock there is.
func BenchmarkSwap(b *testing.B) {
	b.Run("acquire_and_release", func(b *testing.B) {
		s := open(b, empty(b).url())
		l := swap(b, s, regent.Lease{Name: "stargate:leader", Nonce: 1})
		ctx := b.Context()
		compare(b, func() {
			next := held("stargate:leader", "a", l.Nonce+1)
			next.Rev, next.Epoch = l.Rev, l.Epoch+1
			l = swap(b, s, next)
			l = swap(b, s, regent.Lease{Name: l.Name, Rev: l.Rev, Epoch: l.Epoch, Nonce: l.Nonce + 1, Duration: l.Duration})
		}, func() {
			c := s.client
			if err := c.Do(ctx, c.B().Set().Key("raw").Value("a").Nx().PxMilliseconds(30000).Build()).Error(); err != nil {
				b.Fatal(err)
			}
			if err := c.Do(ctx, c.B().Del().Key("raw").Build()).Error(); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("renew", func(b *testing.B) {
		s := open(b, empty(b).url())
		l := swap(b, s, held("stargate:leader", "a", 1))
		ctx := b.Context()
		compare(b, func() {
			l.Nonce++
			l = swap(b, s, l)
		}, func() {
			c := s.client
			if err := c.Do(ctx, c.B().Set().Key("raw").Value("a").PxMilliseconds(30000).Build()).Error(); err != nil {
				b.Fatal(err)
			}
		})
	})
}

func BenchmarkGet(b *testing.B) {
	s := open(b, empty(b).url())
	swap(b, s, held("stargate:leader", "a", 1))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Get(b.Context(), "stargate:leader"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSwapAll(b *testing.B) {
	s := open(b, empty(b).url())
	ls := make([]regent.Lease, 1000)
	for i := range ls {
		ls[i] = held(fmt.Sprintf("e/%05d", i), "a", 1)
	}
	for b.Loop() {
		for i, o := range s.SwapAll(b.Context(), ls) {
			if o.Err != nil {
				b.Fatal(o.Err)
			}
			ls[i] = o.Lease
			ls[i].Nonce++
		}
	}
}

// inBackground runs a member's candidacy until it is stopped.
func inBackground(t testing.TB, m *regent.Member, election string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := m.Run(ctx, regent.Duty{Election: election})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// BenchmarkTakeover is from before a release until another member, with a connection of its own, leads.
func BenchmarkTakeover(b *testing.B) {
	url := empty(b).url()
	stores := []*Store{open(b, url), open(b, url)}
	became := make(chan time.Time, 1)
	start := func(i int) (m *regent.Member, stop func()) {
		m = member(stores[i%2], fmt.Sprint("m", i), func(e regent.Event) {
			if e.Kind == regent.EventBecameLeader {
				became <- time.Now()
			}
		})
		return m, inBackground(b, m, "stargate:leader")
	}
	_, stop := start(0)
	<-became
	var took []time.Duration
	for i := 1; b.Loop(); i++ {
		next, stopNext := start(i)
		for v, err := range next.Watch(b.Context(), "stargate:leader") {
			if err != nil {
				b.Fatal(err)
			}
			if v.Leader == fmt.Sprint("m", i-1) {
				break // it waits
			}
		}
		began := time.Now()
		go stop()
		took = append(took, (<-became).Sub(began))
		stop = stopNext
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(took[0].Microseconds())/1000, "min-ms")
}

func member(s regent.Store, id string, onEvent func(regent.Event)) *regent.Member {
	return &regent.Member{Store: s, ID: id, Config: regent.Lock(), OnEvent: onEvent}
}

// requests counts what clients have sent, not what scripts have called.
func requests(t testing.TB, srv *server) map[string]int {
	all := map[string]int{}
	for line := range strings.Lines(cli(t, srv, "INFO", "commandstats")) {
		var calls int
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if _, err := fmt.Sscanf(rest, "%d", &calls); ok && err == nil {
			all[name] = calls
		}
	}
	return all
}

// BenchmarkIdle is what standbys in the lock profile ask of the server while one leads: in a minute, counted by the server.
func BenchmarkIdle(b *testing.B) {
	const standbys = 10
	srv := empty(b)
	leader := member(open(b, srv.url()), "leader", nil)
	inBackground(b, leader, "stargate:leader")
	if !eventually(10*time.Second, func() bool { _, ok := leader.Leads("stargate:leader"); return ok }) {
		b.Fatal("nobody leads")
	}
	for i := range standbys {
		inBackground(b, member(open(b, srv.url()), fmt.Sprint("standby ", i), nil), "stargate:leader")
	}
	for b.Loop() {
		// Polls grow rarer until they come once a minute.
		<-time.After(65 * time.Second)
		before := requests(b, srv)
		began := time.Now()
		<-time.After(time.Minute)
		after, took := requests(b, srv), time.Since(began).Seconds()
		all := 0
		for _, name := range []string{"evalsha", "eval", "subscribe", "ping", "zrange"} {
			all += after[name] - before[name]
		}
		renewals := after["pexpire"] - before["pexpire"]
		b.ReportMetric(float64(all-renewals)/standbys/took, "requests/s/standby")
		b.ReportMetric(float64(after["ping"]-before["ping"])/standbys/took, "pings/s/standby")
		b.ReportMetric(float64(renewals)/took, "renewals/s")
	}
	b.ReportMetric(0, "ns/op")
}
