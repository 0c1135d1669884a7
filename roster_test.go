package regent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// roll watches the members of a cluster through a client of its own, and keeps what it was shown.
type roll struct {
	t      *testing.T
	client *memstore.Client
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	yields []rollYield
}

type rollYield struct {
	at     time.Time
	states []regent.MemberState
	err    error
}

// watchMembers starts to watch. The store is that of the cluster, seen through a client, unless another is given.
func (c *cluster) watchMembers(change ...func(*regent.Member)) *roll {
	ctx, cancel := context.WithCancel(c.ctx)
	w := &roll{t: c.t, client: c.store.Client("watcher", memstore.Faults{}), stop: cancel, done: make(chan struct{})}
	m := &regent.Member{Store: w.client, ID: "watcher"}
	for _, f := range change {
		f(m)
	}

	go func() {
		defer close(w.done)
		for states, err := range m.WatchMembers(ctx) {
			w.mu.Lock()
			w.yields = append(w.yields, rollYield{time.Now(), states, err})
			w.mu.Unlock()
		}
	}()

	synctest.Wait()
	return w
}

// end stops watching. It must leave nothing behind.
func (w *roll) end() {
	w.stop()
	<-w.done
}

// all returns what was yielded.
func (w *roll) all() []rollYield {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.yields)
}

// last returns the last list that was yielded, as text: each member with "+" if it is alive.
func (w *roll) last() string {
	w.t.Helper()
	synctest.Wait()
	for _, y := range slices.Backward(w.all()) {
		if y.err == nil {
			return rollText(y.states)
		}
	}

	w.t.Fatal("no list was yielded")
	return ""
}

func rollText(states []regent.MemberState) string {
	var words []string
	for _, s := range states {
		sign := "-"
		if s.Alive {
			sign = "+"
		}

		words = append(words, s.ID+sign)
	}

	return strings.Join(words, " ")
}

func (w *roll) want(want string) {
	w.t.Helper()
	if got := w.last(); got != want {
		w.t.Errorf("members are %q, want %q", got, want)
	}
}

// changedWithin waits until the last list is as wanted, and reports an error if that takes longer than most or less
// than least.
func (w *roll) changedWithin(least, most time.Duration, want string) {
	w.t.Helper()
	start := time.Now()
	for w.last() != want && time.Since(start) < most+time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(start); took < least || took > most {
		w.t.Errorf("members are %q after %v, want %q after %v to %v", w.last(), took, want, least, most)
	}
}

// neverShowed reports an error if any list was as text says.
func (w *roll) neverShowed(text string) {
	w.t.Helper()
	for _, y := range w.all() {
		if y.err == nil && rollText(y.states) == text {
			w.t.Errorf("a list showed %q", text)
		}
	}
}

// beater writes the register of a member, as a member would, by hand.
type beater struct {
	c   *cluster
	rec driver.Record
}

// joined returns a member that has just joined, with a lease of 6 s.
func (c *cluster) joined(id, incarnation string) *beater {
	c.t.Helper()
	b := &beater{c: c}
	if l, err := c.store.Get(c.ctx, driver.MemberRegister(id)); err == nil {
		b.rec = l
	}

	b.rec.Name = driver.MemberRegister(id)
	b.rec.Holder = driver.Identity{ID: id, Incarnation: incarnation}
	b.rec.Epoch++
	b.rec.Duration = 6 * time.Second
	b.rec.Data = []byte(`{"eligible":true,"healthy":true}`)
	b.beat()
	return b
}

func (b *beater) swap() {
	b.c.t.Helper()
	l, err := b.c.store.Swap(b.c.ctx, b.rec)
	check(b.c.t, err)
	b.rec = l
}

func (b *beater) beat() {
	b.c.t.Helper()
	b.rec.Nonce++
	b.swap()
}

// keep heartbeats every 1.5 s, for as long as that lasts.
func (b *beater) keep(d time.Duration) {
	b.c.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); b.beat() {
		time.Sleep(1500 * time.Millisecond)
	}
}

func (b *beater) leave() {
	b.c.t.Helper()
	b.rec.Holder = driver.Identity{}
	b.rec.Data = nil
	b.beat()
}

func TestARosterWithoutAStore(t *testing.T) {
	for what, r := range map[string]*regent.Roster{
		"zero": new(regent.Roster), "of a member without a store": new(regent.Member).NewRoster(),
	} {
		states, err := r.List(t.Context())
		if err == nil || !strings.Contains(err.Error(), "Store") || len(states) != 0 {
			t.Errorf("%s: %v, %v", what, states, err)
		}
	}
}

func TestWatchMembers(t *testing.T) {
	t.Run("members_that_join_and_leave_are_reported_by_notification", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			w := c.watchMembers()
			w.want("")
			time.Sleep(time.Second)
			a := c.member("a").lead()
			w.changedWithin(0, 300*time.Millisecond, "a+")
			b := c.member("b").lead()
			w.changedWithin(0, 300*time.Millisecond, "a+ b+")
			time.Sleep(time.Minute)
			a.quit()
			w.changedWithin(0, 300*time.Millisecond, "a- b+")
			b.quit()
			w.end()
		})
	})

	t.Run("without_notifications_they_are_found_by_the_next_list", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			w := c.watchMembers(func(m *regent.Member) { m.Store = struct{ driver.Store }{m.Store} })
			time.Sleep(100 * time.Millisecond)
			a := c.joined("a", "1")
			w.changedWithin(time.Second, 1500*time.Millisecond, "a+")
			a.leave()
			w.changedWithin(time.Second, 1500*time.Millisecond, "a-")
			w.end()
		})
	})

	t.Run("nothing_is_yielded_while_nothing_changes", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			a.keep(time.Minute)
			if got := len(w.all()); got != 1 {
				t.Errorf("%d lists were yielded, want one: %+v", got, w.all())
			}
			if got := w.client.Counts().Lists; got < 40 || got > 42 {
				t.Errorf("the members were listed %d times in a minute, want every 1.5 s", got)
			}

			w.end()
		})
	})

	t.Run("what_a_member_says_of_itself_is_reported_when_it_changes", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			a.rec.Data = []byte(`{"eligible":true,"healthy":false}`)
			a.beat()
			time.Sleep(2 * time.Second)
			a.rec.Addr = "a:2"
			a.beat()
			time.Sleep(2 * time.Second)
			var saw []string
			for _, y := range w.all() {
				saw = append(saw, fmt.Sprintf("%t %s", y.states[0].Healthy, y.states[0].Addr))
			}
			if want := []string{"true ", "false ", "false a:2"}; !slices.Equal(saw, want) {
				t.Errorf("saw %q, want %q", saw, want)
			}

			w.end()
		})
	})

	t.Run("a_loop_that_is_left_leaves_nothing_behind", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			client := c.store.Client("watcher", memstore.Faults{})
			m := &regent.Member{Store: client}
			for range m.WatchMembers(c.ctx) {
				break
			}

			lists := client.Counts().Total()
			a.leave()
			a.keep(time.Minute)
			if got := client.Counts(); got.Total() != lists || got.Writes() != 0 {
				t.Errorf("requests after the loop was left: %+v", got)
			}
		})
	})

	t.Run("what_cannot_work_is_the_only_thing_yielded", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			bad := regent.Cluster()
			bad.HeartbeatInterval = time.Millisecond
			for want, m := range map[string]*regent.Member{
				"heartbeatInterval": {Store: c.store, Config: bad},
				"no Store":          {},
			} {
				n := 0
				for states, err := range m.WatchMembers(c.ctx) {
					if n++; states != nil || err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("yielded %v, %v, want an error about %q", states, err, want)
					}
				}

				if n != 1 {
					t.Errorf("yielded %d times", n)
				}
			}
		})
	})
}

func TestWatchManyMembers(t *testing.T) {
	bubble(t, func(c *cluster) {
		const n = 1000
		w := c.watchMembers()
		var members []*beater
		for i := range n {
			members = append(members, c.joined(fmt.Sprintf("m%04d", i), "1"))
			if i%100 == 0 {
				time.Sleep(time.Millisecond)
			}
		}

		time.Sleep(time.Second)
		alive := func() int { return strings.Count(w.last(), "+") }
		if got := alive(); got != n {
			t.Fatalf("%d members are alive, want %d", got, n)
		}
		if got := w.client.Counts().Lists; got > 4 {
			t.Errorf("%d joins at once made %d lists: notifications are not coalesced", n, got)
		}

		// One half dies, all others go on.
		yields := len(w.all())
		for range 8 {
			time.Sleep(1500 * time.Millisecond)
			for _, b := range members[:n/2] {
				b.beat()
			}
		}

		if got := alive(); got != n/2 {
			t.Errorf("%d members are alive, want %d", got, n/2)
		}
		if got := len(w.all()) - yields; got > 2 {
			t.Errorf("%d lists were yielded, want the deaths together", got)
		}

		states := w.all()[len(w.all())-1].states
		if !slices.IsSortedFunc(states, func(a, b regent.MemberState) int { return strings.Compare(a.ID, b.ID) }) {
			t.Error("the members are not sorted by ID")
		}

		w.end()
	})
}
