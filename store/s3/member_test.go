package s3

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// quick is the cluster profile, twice as fast.
func quick() regent.Config {
	c := regent.Cluster()
	c.LeaseDuration, c.StopTimeout, c.WorkerTimeout = 3*time.Second, 500*time.Millisecond, 3*time.Second
	c.HeartbeatInterval, c.RenewInterval = 500*time.Millisecond, 500*time.Millisecond
	c.ElectionInterval, c.ElectionIntervalMax = 500*time.Millisecond, 500*time.Millisecond
	c.TakeoverDelay = 200 * time.Millisecond
	c.RenewBackoff = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}
	return c
}

// enough is how long anything may take that must happen at all.
const enough = 90 * time.Second

// crowd is members that campaign for one election, with an eye on all of them.
type crowd struct {
	t *testing.T

	mu     sync.Mutex
	all    []*regent.Member
	events []regent.Event
	led    map[string][]uint64 // by member: the epochs of its terms, in order
	both   string              // who led at once
}

const election = "seat"

func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t, led: map[string][]uint64{}}
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		c.watch(done)
	}()
	t.Cleanup(func() {
		close(done)
		<-watched
		if c.both != "" {
			t.Errorf("two leaders at once: %s", c.both)
		}
		c.checkEpochs()
	})
	return c
}

// checkEpochs wants every epoch to have been led in once.
func (c *crowd) checkEpochs() {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := map[uint64]string{}
	for id, epochs := range c.led {
		if !slices.IsSorted(epochs) {
			c.t.Errorf("%s led in the epochs %v", id, epochs)
		}
		for _, e := range epochs {
			if by[e] != "" {
				c.t.Errorf("%s and %s led in epoch %d", by[e], id, e)
			}
			by[e] = id
		}
	}
}

// join starts a member, and returns it with what stops it.
func (c *crowd) join(id string, s driver.Store) (*regent.Member, func()) {
	m := &regent.Member{Store: s, ID: id, Config: quick(), OnEvent: func(e regent.Event) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.events = append(c.events, e)
	}}
	c.mu.Lock()
	c.all = append(c.all, m)
	c.mu.Unlock()

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_ = m.Lead(ctx, election, func(ctx context.Context, term regent.Term) error {
				c.mu.Lock()
				c.led[id] = append(c.led[id], term.Epoch)
				c.mu.Unlock()
				<-ctx.Done()
				return nil
			})
		}
	}()
	stop := sync.OnceFunc(func() { cancel(); <-ended })
	c.t.Cleanup(stop)
	return m, stop
}

// watch looks for two leaders at once until done.
func (c *crowd) watch(done chan struct{}) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-done:
			return
		}
		// The first may have stopped before the second was asked: ask again.
		if lead := c.lead(); len(lead) > 1 && len(c.lead()) > 1 {
			c.mu.Lock()
			c.both = strings.Join(lead, ", ")
			c.mu.Unlock()
		}
	}
}

// lead returns who leads.
func (c *crowd) lead() (all []string) {
	c.mu.Lock()
	members := slices.Clone(c.all)
	c.mu.Unlock()
	for _, m := range members {
		if term, ok := m.Leads(election); ok && term.Valid() {
			all = append(all, fmt.Sprintf("%s in epoch %d", m.ID, term.Epoch))
		}
	}
	return all
}

// until waits for something that must happen.
func (c *crowd) until(what string, ok func() bool) {
	c.t.Helper()
	if !eventually(enough, ok) {
		c.t.Fatalf("never: %s; leaders %v, terms %v", what, c.lead(), c.led)
	}
}

// leads waits until a member leads, beyond an epoch, and returns its epoch.
func (c *crowd) leads(m *regent.Member, beyond uint64) (epoch uint64) {
	c.t.Helper()
	c.until(fmt.Sprintf("%s leads beyond epoch %d", m.ID, beyond), func() bool {
		term, ok := m.Leads(election)
		epoch = term.Epoch
		return ok && epoch > beyond
	})
	return epoch
}

// somebodyLeads waits until anybody leads beyond an epoch.
func (c *crowd) somebodyLeads(beyond uint64) (epoch uint64) {
	c.t.Helper()
	c.until(fmt.Sprintf("somebody leads beyond epoch %d", beyond), func() bool {
		c.mu.Lock()
		members := slices.Clone(c.all)
		c.mu.Unlock()
		return slices.ContainsFunc(members, func(m *regent.Member) bool {
			term, ok := m.Leads(election)
			if ok && term.Epoch > beyond {
				epoch = term.Epoch
			}
			return ok && term.Epoch > beyond
		})
	})
	return epoch
}

// happened returns how many events of a kind there were.
func (c *crowd) happened(kind regent.EventKind) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// seen reports whether an observer has seen the leader of an epoch.
func (c *crowd) seen(epoch uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.events, func(e regent.Event) bool {
		return e.Kind == regent.EventLeaderChanged && e.Epoch == epoch
	})
}

// Whatever happens to the requests of a leader, at most one member leads, and somebody leads again.
func TestMembersUnderFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault fault
		stays bool // the leader leads on
		reads bool // the fault is for reads too
	}{
		"requests_are_refused": {fault: dropped, reads: true},
		"requests_hang":        {fault: hang, reads: true},
		"writes_hang":          {fault: hang},
		"answers_are_lost":     {fault: loseAnswer, reads: true},
		"answers_of_writes_are_lost_and_reads_show_it": {fault: loseAnswer, stays: true},
		"writes_conflict_with_others_for_a_while":      {fault: answer(409, "ConditionalRequestConflict")},
		"the_server_asks_to_slow_down":                 {fault: answer(503, "SlowDown"), reads: true},
		"answers_are_slow":                             {fault: slow(150 * time.Millisecond), reads: true, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProxy(t, shared.endpoint())
			direct := open(t, fresh(shared.endpoint()))
			behind := unprobed(t, through(direct, p))
			c2 := newCrowd(t)
			a, _ := c2.join("a", behind)
			first := c2.leads(a, 0)
			b, _ := c2.join("b", direct)

			if c.reads {
				p.all(c.fault)
			} else {
				p.set(puts(c.fault))
			}
			if c.stays {
				end := time.Now().Add(2 * quick().LeaseDuration)
				c2.until("two leases have passed", func() bool { return time.Now().After(end) })
				if term, ok := a.Leads(election); !ok || term.Epoch != first {
					t.Errorf("a led in epoch %d, and now %v in %d: %v", first, ok, term.Epoch, c2.lead())
				}
				return
			}
			second := c2.leads(b, first)
			p.set(nil)
			c2.until("a has joined again", func() bool {
				l, err := direct.Get(t.Context(), driver.MemberRegister("a"))
				return err == nil && !l.Vacant()
			})
			if term, ok := b.Leads(election); !ok || term.Epoch != second {
				t.Errorf("after the fault b leads: %v, in epoch %d, want %d", ok, term.Epoch, second)
			}
		})
	}
}

// through returns the address of a store by way of a proxy.
func through(s *Store, p *proxy) string {
	return fmt.Sprintf("s3://%s/%s?endpoint=%s", s.addr.bucket, strings.TrimSuffix(s.addr.prefix, "/"), p.URL)
}

// A server that is killed and started again has kept what it has answered: nobody finds that it has lost writes.
func TestMembersSurviveARestartOfTheServer(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	addr := fresh(srv.endpoint())
	c := newCrowd(t)
	a, _ := c.join("a", open(t, addr))
	first := c.leads(a, 0)
	c.join("b", open(t, addr))

	srv.stop()
	if err := srv.start(); err != nil {
		t.Fatal(err)
	}
	again := c.somebodyLeads(first - 1)
	srv.stop()
	c.until("nobody leads without a server", func() bool { return len(c.lead()) == 0 })
	if err := srv.start(); err != nil {
		t.Fatal(err)
	}
	c.somebodyLeads(again)
	if n := c.happened(regent.EventStoreRegressed); n != 0 {
		t.Errorf("%d members found that the server had lost writes", n)
	}
}
