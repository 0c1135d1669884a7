package redis

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// quickLock is the lock profile, ten times as fast.
func quickLock() regent.Config {
	c := regent.Lock()
	c.LeaseDuration = 3 * time.Second
	c.RenewInterval = 500 * time.Millisecond
	c.StopTimeout = 500 * time.Millisecond
	c.ElectionInterval, c.ElectionIntervalMax = 500*time.Millisecond, 6*time.Second
	c.RenewBackoff = []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond}
	c.HeartbeatInterval, c.WorkerTimeout = 500*time.Millisecond, 2*time.Second
	return c
}

// group is members that campaign for one election, and a check that no two of them lead at once.
type group struct {
	t        *testing.T
	election string
	cfg      regent.Config
	all      []*regent.Member
	stops    []func()
	tolerant bool // two leaders at once are measured, and are no failure
	mu       sync.Mutex
	events   []memberEvent
	both     string        // who led at once
	overlap  time.Duration // for how long that was seen
}

// memberEvent is an event of one member.
type memberEvent struct {
	who int
	regent.Event
}

// campaign starts a member on each store, one after the other.
func campaign(t *testing.T, election string, cfg regent.Config, stores ...driver.Store) *group {
	c := &group{t: t, election: election, cfg: cfg}
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
func (c *group) join(id string, s driver.Store) int {
	c.mu.Lock()
	who := len(c.all)
	m := &regent.Member{Store: s, ID: id, Config: c.cfg, OnEvent: func(e regent.Event) {
		c.mu.Lock()
		c.events = append(c.events, memberEvent{who, e})
		c.mu.Unlock()
	}}

	c.all = append(c.all, m)
	c.mu.Unlock()

	c.stops = append(c.stops, storetest.RunMember(c.t, m, regent.Duty{Election: c.election}))
	return who
}

func (c *group) members() []*regent.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// watch checks for two leaders at once until done.
func (c *group) watch(done chan struct{}) {
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

		// The first may have stopped leading before the second was asked: ask again.
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
func (c *group) lead() (all []string) {
	for _, m := range c.members() {
		if term, ok := m.Leads(c.election); ok {
			all = append(all, fmt.Sprintf("%s in epoch %d", m.ID, term.Epoch))
		}
	}
	return all
}

// overlapped returns for how long two have led at once, and who.
func (c *group) overlapped() (time.Duration, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overlap, c.both
}

// leader waits for a term later than epoch.
func (c *group) leader(within time.Duration, after uint64) (int, regent.Term) {
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

func (c *group) saw(kind regent.EventKind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	for _, e := range c.events {
		if e.Kind == kind {
			return true
		}
	}
	return false
}

// knows waits until all other members have seen that leader.
func (c *group) knows(epoch uint64) {
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
		await(t, "a renewal", 15*time.Second,
			func() bool { return time.Since(began) > time.Second && pttl(t, c, stargate) > 29*time.Second })
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

func TestPlainLockIsRespected(t *testing.T) {
	c := raw(t, empty(t))
	ask(t, c, "SET", stargate, "somebody", "NX", "PX", "2000")
	all := campaign(t, stargate, quickLock(), open(t, shared.url()))

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
