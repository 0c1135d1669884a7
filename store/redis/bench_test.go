package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func held(name, holder string, nonce uint64) driver.Record {
	return driver.Record{
		Name: name, Holder: driver.Identity{ID: holder, Incarnation: "CDIGDVLEQWFXE5MCUK3YPTTXAY"},
		Addr: "10.0.0.1:7000", Epoch: 1, Nonce: nonce,
		Duration: 30 * time.Second, Since: time.Now(),
	}
}

// BenchmarkSwap compares with the same client and settings, and with the simplest lock.
func BenchmarkSwap(b *testing.B) {
	b.Run("acquire_and_release", func(b *testing.B) {
		s := open(b, empty(b).url())
		l := storetest.Swap(b, s, driver.Record{Name: "stargate:leader", Nonce: 1})
		ctx := b.Context()
		storetest.Compare(b, func() {
			next := held("stargate:leader", "a", l.Nonce+1)
			next.Rev, next.Epoch = l.Rev, l.Epoch+1
			l = storetest.Swap(b, s, next)
			l = storetest.Swap(b, s, driver.Record{Name: l.Name, Rev: l.Rev, Epoch: l.Epoch, Nonce: l.Nonce + 1,
				Duration: l.Duration})
		}, func() {
			c := s.client
			if err := c.Do(ctx, c.B().Set().Key("raw").Value("a").Nx().PxMilliseconds(
				30000).Build()).Error(); err != nil {
				b.Fatal(err)
			}
			if err := c.Do(ctx, c.B().Del().Key("raw").Build()).Error(); err != nil {
				b.Fatal(err)
			}
		})
	})

	b.Run("renew", func(b *testing.B) {
		s := open(b, empty(b).url())
		l := storetest.Swap(b, s, held("stargate:leader", "a", 1))
		ctx := b.Context()
		storetest.Compare(b, func() {
			l.Nonce++
			l = storetest.Swap(b, s, l)
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
	storetest.Swap(b, s, held("stargate:leader", "a", 1))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Get(b.Context(), "stargate:leader"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSwapAll(b *testing.B) {
	s := open(b, empty(b).url())
	ls := make([]driver.Record, 1000)
	for i := range ls {
		ls[i] = held(fmt.Sprintf("e/%05d", i), "a", 1)
	}

	for b.Loop() {
		for i, o := range s.SwapAll(b.Context(), ls) {
			if o.Err != nil {
				b.Fatal(o.Err)
			}
			ls[i] = o.Record
			ls[i].Nonce++
		}
	}
}

// forwarding is a store whose notifications are forwarded, with their record or without.
type forwarding struct {
	*Store
	bare bool
}

func (s forwarding) Subscribe(ctx context.Context, to *driver.Interest) <-chan driver.Record {
	in, out := s.Store.Subscribe(ctx, to), make(chan driver.Record, 1)
	go func() {
		for {
			select {
			case l := <-in:
				if s.bare {
					l = driver.Record{}
				}
				driver.Notify(out, l)
			case <-ctx.Done():
				return
			}
		}
	}()

	return out
}

// relay is two stores whose members lead an election alternately.
type relay struct {
	election string
	stores   [2]driver.Store
	became   chan time.Time
	stop     func() // the one who leads
	n        int
	took     []time.Duration
}

func (r *relay) start(b *testing.B) (*regent.Member, func()) {
	m := member(r.stores[r.n%2], fmt.Sprint("m", r.n), func(e regent.Event) {
		if e.Kind == regent.EventBecameLeader {
			r.became <- time.Now()
		}
	})
	return m, storetest.RunMember(b, m, regent.Duty{Election: r.election})
}

// change makes the next member lead, once it waits and nothing else happens.
func (r *relay) change(b *testing.B) {
	before := fmt.Sprint("m", r.n)
	r.n++
	next, stop := r.start(b)
	for v, err := range next.Watch(b.Context(), r.election) {
		if err != nil {
			b.Fatal(err)
		}
		if v.Leader == before {
			break
		}
	}

	<-time.After(rest)
	began := time.Now()
	go r.stop()
	r.took = append(r.took, (<-r.became).Sub(began))
	r.stop = stop
}

// rest is how long nothing happens before what is measured.
const rest = 100 * time.Millisecond

// BenchmarkTakeover is the time from before a release until another member, with its own connection, leads: with the
// record in the notification and without, alternately.
func BenchmarkTakeover(b *testing.B) {
	url := empty(b).url()
	with := &relay{election: "with", stores: [2]driver.Store{forwarding{open(b, url), false},
		forwarding{open(b, url), false}}}
	without := &relay{election: "bare", stores: [2]driver.Store{forwarding{open(b, url), true},
		forwarding{open(b, url), true}}}
	for _, r := range []*relay{with, without} {
		r.became = make(chan time.Time, 1)
		_, r.stop = r.start(b)
		<-r.became
	}

	for b.Loop() {
		with.change(b)
		without.change(b)
	}

	b.ReportMetric(0, "ns/op")
	for prefix, r := range map[string]*relay{"": with, "bare-": without} {
		slices.Sort(r.took)
		for name, at := range map[string]int{"min-ms": 0, "p50-ms": len(r.took) / 2, "p99-ms": len(r.took) * 99 / 100} {
			b.ReportMetric(float64(r.took[at].Microseconds())/1000, prefix+name)
		}
	}
}

// BenchmarkRested is the first request after a rest, and the one that follows at once.
func BenchmarkRested(b *testing.B) {
	s := open(b, empty(b).url())
	s.Subscribe(b.Context(), driver.Prefix("")) // as every member does
	l := storetest.Swap(b, s, held("stargate:leader", "a", 1))
	for name, request := range map[string]func(){
		"ping": func() {
			if err := s.client.Do(b.Context(), s.client.B().Ping().Build()).Error(); err != nil {
				b.Fatal(err)
			}
		},
		"renew": func() { l.Nonce++; l = storetest.Swap(b, s, l) },
	} {
		b.Run(name, func(b *testing.B) {
			var rested, next []time.Duration
			for b.Loop() {
				<-time.After(rest)
				began := time.Now()
				request()
				between := time.Now()
				request()
				rested, next = append(rested, between.Sub(began)), append(next, time.Since(between))
			}

			slices.Sort(rested)
			slices.Sort(next)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(rested[len(rested)/2].Microseconds()), "rested-p50-µs")
			b.ReportMetric(float64(next[len(next)/2].Microseconds()), "next-p50-µs")
		})
	}
}

func member(s driver.Store, id string, onEvent func(regent.Event)) *regent.Member {
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

// BenchmarkIdle counts what standbys in the lock profile send to the server in a minute while one member leads.
func BenchmarkIdle(b *testing.B) {
	const standbys = 10
	srv := empty(b)
	leader := member(open(b, srv.url()), "leader", nil)
	storetest.RunMember(b, leader, regent.Duty{Election: "stargate:leader"})
	if !eventually(10*time.Second, func() bool { _, ok := leader.Leads("stargate:leader"); return ok }) {
		b.Fatal("nobody leads")
	}

	for i := range standbys {
		standby := member(open(b, srv.url()), fmt.Sprint("standby ", i), nil)
		storetest.RunMember(b, standby, regent.Duty{Election: "stargate:leader"})
	}

	for b.Loop() {
		// Polls become rarer until they come once a minute.
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

// BenchmarkRefresh reads registers of which none has changed, each with a record of about 5 KB: with Refresh, one by
// one with Get, and with List. It reports the bytes that come back from the server for all of them.
func BenchmarkRefresh(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		ls := bulky(b, open(b, empty(b).url()), n)
		c := startCounter(b, shared.addr())
		s := open(b, c.url())
		for _, way := range []struct {
			name string
			read func()
		}{
			{"refresh", func() {
				for _, o := range s.Refresh(b.Context(), ls) {
					if o.Err != nil {
						b.Fatal(o.Err)
					}
				}
			}},
			{"get", func() {
				for _, l := range ls {
					get(b, s, l.Name)
				}
			}},
			{"list", func() {
				if got := storetest.Names(b, s, "bulky/"); len(got) != n {
					b.Fatal(len(got))
				}
			}},
		} {
			b.Run(fmt.Sprintf("%s/%d", way.name, n), func(b *testing.B) {
				before, rounds := c.bytes.Load(), 0
				for b.Loop() {
					way.read()
					rounds++
				}
				b.ReportMetric(float64(c.bytes.Load()-before)/float64(rounds), "bytes-back")
			})
		}
	}
}
