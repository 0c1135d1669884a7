package redis

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// quick is the lock profile, ten times as fast.
func quick() regent.Config {
	c := regent.Lock()
	c.LeaseDuration, c.RenewInterval, c.StopTimeout = 3*time.Second, 500*time.Millisecond, 500*time.Millisecond
	c.ElectionInterval, c.ElectionIntervalMax = 500*time.Millisecond, 6*time.Second
	c.RenewBackoff = []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond}
	c.HeartbeatInterval, c.WorkerTimeout = 500*time.Millisecond, 2*time.Second
	return c
}

// crowd is members that campaign for one election, and an eye on all of them.
type crowd struct {
	t        *testing.T
	election string
	cfg      regent.Config
	all      []*regent.Member
	stops    []func()
	tolerant bool // two leaders at once are measured, and no failure
	mu       sync.Mutex
	events   []happened
	both     string        // who led at once
	overlap  time.Duration // for how long, as far as it was seen
}

// happened is an event of one member.
type happened struct {
	who int
	regent.Event
}

// campaign starts a member on each store, one after the other.
func campaign(t *testing.T, election string, cfg regent.Config, stores ...driver.Store) *crowd {
	c := &crowd{t: t, election: election, cfg: cfg}
	for _, s := range stores {
		c.join(fmt.Sprint("m", len(c.all)), s)
	}
	done := make(chan struct{})
	watched := make(chan struct{})
	t.Cleanup(func() {
		close(done)
		<-watched
		if c.both != "" && !c.tolerant {
			t.Errorf("two leaders at once for %v: %s", c.overlap, c.both)
		}
	})
	go func() {
		defer close(watched)
		c.watch(done)
	}()
	return c
}

// join starts one more member, and returns its place.
func (c *crowd) join(id string, s driver.Store) int {
	c.mu.Lock()
	who := len(c.all)
	m := &regent.Member{Store: s, ID: id, Config: c.cfg, OnEvent: func(e regent.Event) {
		c.mu.Lock()
		c.events = append(c.events, happened{who, e})
		c.mu.Unlock()
	}}
	c.all = append(c.all, m)
	c.mu.Unlock()
	c.stops = append(c.stops, inBackground(c.t, m, c.election))
	return who
}

func (c *crowd) members() []*regent.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// watch looks for two leaders at once until done.
func (c *crowd) watch(done chan struct{}) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-tick.C:
		case <-done:
			return
		}
		now := time.Now()
		lead := c.lead()
		// The first may have stopped before the second was asked: ask again.
		if len(lead) > 1 && len(c.lead()) > 1 {
			c.mu.Lock()
			c.both = strings.Join(lead, ", ")
			c.overlap += now.Sub(last)
			c.mu.Unlock()
		}
		last = now
	}
}

// lead returns who leads, and in which epoch.
func (c *crowd) lead() (all []string) {
	for _, m := range c.members() {
		if term, ok := m.Leads(c.election); ok {
			all = append(all, fmt.Sprintf("%s in epoch %d", m.ID, term.Epoch))
		}
	}
	return all
}

// overlapped returns for how long two have led at once, and who.
func (c *crowd) overlapped() (time.Duration, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overlap, c.both
}

// leader waits for a term later than epoch.
func (c *crowd) leader(within time.Duration, after uint64) (int, regent.Term) {
	c.t.Helper()
	var who int
	var term regent.Term
	await(c.t, fmt.Sprintf("a leader after epoch %d", after), within, func() bool {
		for i, m := range c.members() {
			if t, ok := m.Leads(c.election); ok && t.Epoch > after {
				who, term = i, t
				return true
			}
		}
		return false
	})
	return who, term
}

func (c *crowd) saw(kind string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.Kind == kind {
			return true
		}
	}
	return false
}

// knows waits until everybody else has seen that leader.
func (c *crowd) knows(epoch uint64) {
	c.t.Helper()
	for _, m := range c.all {
		ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
		known := false
		for v, err := range m.Watch(ctx, c.election) {
			if err == nil && v.Epoch >= epoch {
				known = true
				break
			}
		}
		cancel()
		if !known {
			c.t.Fatalf("%s has not seen epoch %d", m.ID, epoch)
		}
	}
}

const stargate = "stargate:leader"

func TestLock(t *testing.T) {
	srv := empty(t)
	c := raw(t, srv)
	seen := monitor(t, srv)
	var stores []driver.Store
	for range 3 {
		stores = append(stores, open(t, srv.url()))
	}
	all := campaign(t, stargate, regent.Lock(), stores...)
	who, term := all.leader(10*time.Second, 0)
	t.Run("L01_the_key_itself_is_taken_with_an_expiry_of_30s", func(t *testing.T) {
		id, _, _ := strings.Cut(ask(t, c, "GET", stargate), "/")
		if id != all.all[who].ID {
			t.Errorf("GET %s shows %q, and %s leads", stargate, id, all.all[who].ID)
		}
		if left := pttl(t, c, stargate); left <= 0 || left > 30*time.Second {
			t.Errorf("it expires in %v", left)
		}
		if left := pttl(t, c, "{"+stargate+"}:regent"); left != -time.Millisecond {
			t.Errorf("the epoch expires in %v", left)
		}
		seen(regexp.MustCompile(`"SET" "stargate:leader" "m\d/\w+" "PX" "30000" "NX"`))
	})
	t.Run("L02_each_tries_and_the_one_that_gets_the_key_leads", func(t *testing.T) {
		all.knows(term.Epoch)
		for i, m := range all.all {
			if _, ok := m.Leads(stargate); ok != (i == who) {
				t.Errorf("%s leads: %t", m.ID, ok)
			}
		}
	})
	t.Run("another_gets_the_key_after_a_release", func(t *testing.T) {
		all.stops[who]()
		next, later := all.leader(10*time.Second, term.Epoch)
		if next == who || later.Epoch != term.Epoch+1 {
			t.Errorf("%s leads in epoch %d after epoch %d", all.all[next].ID, later.Epoch, term.Epoch)
		}
	})
	t.Run("L03_L11_it_is_renewed_every_10s_and_the_epoch_stays", func(t *testing.T) {
		if testing.Short() {
			t.Skip("takes 10 s")
		}
		who, term := all.leader(time.Second, term.Epoch)
		began := time.Now()
		await(t, "a renewal", 15*time.Second, func() bool { return time.Since(began) > time.Second && pttl(t, c, stargate) > 29*time.Second })
		if after := time.Since(began); after < 9*time.Second {
			t.Errorf("it was renewed after %v", after)
		}
		if now, ok := all.all[who].Leads(stargate); !ok || now.Epoch != term.Epoch {
			t.Errorf("it leads: %t, in epoch %d after %d", ok, now.Epoch, term.Epoch)
		}
	})
}

// monitor returns a way to wait for a command that the server runs.
func monitor(t *testing.T, srv *server) func(*regexp.Regexp) {
	conn, err := net.Dial("tcp", srv.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, "MONITOR\r\n")
	var mu sync.Mutex
	var text strings.Builder
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			mu.Lock()
			text.Write(b[:n])
			mu.Unlock()
		}
	}()
	return func(want *regexp.Regexp) {
		t.Helper()
		await(t, "the server runs "+want.String(), 5*time.Second, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return want.MatchString(text.String())
		})
	}
}

func TestLeaderCutOff(t *testing.T) {
	p := startProxy(t, empty(t).addr())
	near := open(t, shared.url())
	cfg := quick()
	cfg.LeaseDuration, cfg.RenewInterval, cfg.WorkerTimeout = 9*time.Second, 1500*time.Millisecond, 9*time.Second
	all := campaign(t, stargate, cfg, open(t, p.url()), near)
	who, term := all.leader(10*time.Second, 0)
	if who == 1 { // the one that is to be cut off must lead
		if err := all.all[1].StepDown(t.Context(), stargate); err != nil {
			t.Fatal(err)
		}
		if who, term = all.leader(10*time.Second, term.Epoch); who != 0 {
			t.Fatalf("m%d leads", who)
		}
	}
	all.knows(term.Epoch)
	p.l.Close()
	p.cut()
	began := time.Now()
	t.Run("L06_a_standby_gets_the_key_when_it_expires_and_never_both_lead", func(t *testing.T) {
		who, later := all.leader(20*time.Second, term.Epoch)
		if who != 1 || later.Epoch != term.Epoch+1 {
			t.Errorf("m%d leads in epoch %d", who, later.Epoch)
		}
		// The timer at the known expiry is what makes it so soon: by polling it would take up to another lease.
		if after := time.Since(began); after > cfg.LeaseDuration+3*time.Second {
			t.Errorf("after %v, with a lease of %v", after, cfg.LeaseDuration)
		}
	})
}

func TestPlainLockIsRespected(t *testing.T) {
	c := raw(t, empty(t))
	ask(t, c, "SET", stargate, "somebody", "NX", "PX", "2000")
	all := campaign(t, stargate, quick(), open(t, shared.url()))
	t.Run("L09_while_it_cannot_be_acquired_nobody_leads", func(t *testing.T) {
		for {
			_, leads := all.all[0].Leads(stargate)
			switch {
			case ask(t, c, "GET", stargate) != "somebody":
				return
			case leads:
				t.Fatal("it leads")
			}
		}
	})
	all.leader(5*time.Second, 0)
}

func TestStolenSeat(t *testing.T) {
	c := raw(t, empty(t))
	all := campaign(t, stargate, quick(), open(t, shared.url()))
	all.leader(10*time.Second, 0)
	ask(t, c, "SET", stargate, "a thief", "PX", "60000")
	t.Run("L12_a_renewal_that_fails_for_good_demotes_and_clears_nobody_elses_key", func(t *testing.T) {
		await(t, "it does not lead any more", 10*time.Second, func() bool { _, ok := all.all[0].Leads(stargate); return !ok })
		await(t, "it says so", 10*time.Second, func() bool { return all.saw(regent.EventLostLeadership) })
		all.stops[0]()
		if got := ask(t, c, "GET", stargate); got != "a thief" {
			t.Errorf("the key is now %q", got)
		}
	})
}

func TestFlushed(t *testing.T) {
	for name, cfg := range map[string]regent.Config{"own_lease": quick(), "member_heartbeat": quickCluster()} {
		t.Run(name, func(t *testing.T) {
			srv := empty(t)
			all := campaign(t, stargate, cfg, open(t, srv.url()), open(t, srv.url()))
			_, term := all.leader(10*time.Second, 0)
			all.knows(term.Epoch)
			cli(t, srv, "FLUSHALL")
			_, later := all.leader(20*time.Second, term.Epoch)
			all.knows(later.Epoch)
			if !all.saw(regent.EventStoreRegressed) {
				t.Error("no event tells that the store was flushed")
			}
		})
	}
}

func quickCluster() regent.Config {
	c := regent.Cluster()
	c.LeaseDuration, c.HeartbeatInterval, c.RenewInterval, c.StopTimeout = 2*time.Second, 400*time.Millisecond, 400*time.Millisecond, 300*time.Millisecond
	c.ElectionInterval, c.ElectionIntervalMax, c.TakeoverDelay, c.WorkerTimeout = 500*time.Millisecond, 500*time.Millisecond, 100*time.Millisecond, 2*time.Second
	return c
}

func TestRestartedUnderMembers(t *testing.T) {
	srv := startServer(t, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	cfg := quick()
	cfg.LeaseDuration, cfg.WorkerTimeout, cfg.RenewBackoff = 10*time.Second, 10*time.Second, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}
	all := campaign(t, stargate, cfg, open(t, srv.url()), open(t, srv.url()))
	who, term := all.leader(10*time.Second, 0)
	all.knows(term.Epoch)
	srv.stop(syscall.SIGKILL)
	if err := srv.start(); err != nil {
		t.Fatal(err)
	}
	// It was down for less than a lease, so whoever led leads on. Another release and claim show that the epoch was kept.
	await(t, "a renewal after the restart", 10*time.Second, func() bool {
		got, ok := all.all[who].Leads(stargate)
		return ok && got.Epoch == term.Epoch && pttl(t, raw(t, srv), stargate) > 9500*time.Millisecond
	})
	all.stops[who]()
	if _, later := all.leader(10*time.Second, term.Epoch); later.Epoch != term.Epoch+1 {
		t.Errorf("epoch %d after %d", later.Epoch, term.Epoch)
	}
	if all.saw(regent.EventStoreRegressed) {
		t.Error("a restart that lost nothing is said to have lost something")
	}
}

func TestSentinelFailover(t *testing.T) {
	primary := startServer(t, "--save", "", "--repl-diskless-sync-delay", "0")
	p := startProxy(t, primary.addr())
	host, port, _ := strings.Cut(strings.TrimPrefix(p.url(), "redis://"), ":")
	replica := startReplica(t, primary, host, port)
	sentinel := startSentinel(t, primary, 2*time.Second)
	await(t, "the sentinel knows the replica", 20*time.Second, func() bool {
		return strings.Contains(cli(t, sentinel, "INFO", "sentinel"), "slaves=1")
	})
	url := fmt.Sprintf("redis://%s?sentinel=mymaster", sentinel.addr())
	all := campaign(t, stargate, quick(), open(t, url), open(t, url))
	who, first := all.leader(10*time.Second, 0)
	all.knows(first.Epoch)
	await(t, "the replica shows the leader", 10*time.Second, func() bool {
		return strings.HasPrefix(cli(t, replica, "GET", stargate), all.all[who].ID+"/")
	})
	// From here on the replica hears of nothing, so that the failover loses a whole change of hands.
	p.swallow(true)
	if err := all.all[who].StepDown(t.Context(), stargate); err != nil {
		t.Fatal(err)
	}
	_, lost := all.leader(10*time.Second, first.Epoch)
	all.knows(lost.Epoch)
	primary.stop(syscall.SIGKILL)
	await(t, "the replica is the primary", 90*time.Second, func() bool {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{replica.addr()}, ForceSingleClient: true, DisableCache: true})
		if err != nil {
			return false
		}
		defer c.Close()
		info, err := c.Do(t.Context(), c.B().Info().Section("replication").Build()).ToString()
		return err == nil && strings.Contains(info, "role:master") // it cuts connections when it becomes one
	})
	_, later := all.leader(90*time.Second, lost.Epoch)
	all.knows(later.Epoch)
	if !all.saw(regent.EventStoreRegressed) {
		t.Error("no event tells that the failover lost something")
	}
	t.Logf("epoch %d, then %d, which was lost, then %d", first.Epoch, lost.Epoch, later.Epoch)
}
