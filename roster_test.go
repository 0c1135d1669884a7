package regent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
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

// changedWithin waits until the last list is as wanted, and reports an error if that takes longer than most or less than
// least.
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

func TestMemberLiveness(t *testing.T) {
	t.Run("a_member_that_dies_is_alive_for_its_lease_and_no_longer", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			w := c.watchMembers()
			a := c.joined("a", "1")
			a.keep(time.Minute)
			// The newest heartbeat is received within an interval, and the list that shows the death is an interval later.
			w.changedWithin(6*time.Second, 9*time.Second, "a-")
			w.end()
		})
	})

	t.Run("a_member_that_was_dead_before_is_dead_after_its_lease", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			c.joined("a", "1")
			time.Sleep(time.Hour)
			w := c.watchMembers()
			w.want("a+")
			if s := w.all()[0].states[0]; s.Heartbeats != 1 {
				t.Errorf("%d heartbeats were seen, want 1", s.Heartbeats)
			}
			w.changedWithin(6*time.Second, 7500*time.Millisecond, "a-")
			w.end()
		})
	})

	t.Run("a_member_that_was_frozen_is_alive_again_with_its_next_heartbeat", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			w := c.watchMembers()
			a := c.joined("a", "1")
			time.Sleep(time.Minute)
			w.want("a-")
			a.beat()
			w.changedWithin(0, 1500*time.Millisecond, "a+")
			w.end()
		})
	})

	t.Run("a_member_that_returns_is_a_new_incarnation", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			a.leave()
			time.Sleep(time.Minute)
			w.want("a-")
			c.joined("a", "2")
			w.changedWithin(0, 300*time.Millisecond, "a+")

			// So does one that returns while its lease runs: what was yielded differs.
			n := len(w.all())
			c.joined("a", "3")
			time.Sleep(time.Second)
			all := w.all()
			if len(all) != n+1 || all[n].states[0].Incarnation != "3" {
				t.Errorf("yielded %+v", all[n:])
			}
			w.end()
		})
	})

	t.Run("an_edit_of_the_register_gives_no_time", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			for range 8 {
				time.Sleep(time.Second)
				a.rec.Edits++
				a.swap()
			}
			w.want("a-")
			if s := w.all()[1].states[0]; s.Heartbeats != 1 {
				t.Errorf("%d heartbeats were seen, want 1", s.Heartbeats)
			}
			w.end()
		})
	})

	t.Run("each_member_has_the_lease_that_it_says", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			w := c.watchMembers()
			c.joined("a", "1")
			b := c.joined("b", "1")
			b.rec.Duration = 20 * time.Second
			b.beat()
			none := c.joined("c", "1")
			none.rec.Duration = 0
			none.beat()
			w.changedWithin(0, 2*time.Second, "a+ b+ c-")
			w.changedWithin(5*time.Second, 8*time.Second, "a- b+ c-")
			w.changedWithin(12*time.Second, 16*time.Second, "a- b- c-")
			w.end()
		})
	})

	t.Run("a_register_that_no_member_has_written_is_not_alive", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			_, err := c.store.Swap(c.ctx, driver.Record{Name: driver.MemberRegister("a"), Nonce: 1, Duration: time.Hour,
				Holder: driver.Identity{ID: "b", Incarnation: "1"}})
			check(t, err)
			w := c.watchMembers()
			w.want("a-")
			w.end()
		})
	})

	t.Run("the_age_of_a_heartbeat_is_known_at_each_list", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			r := (&regent.Member{Store: c.store}).NewRoster()
			list := func(want regent.MemberState) {
				t.Helper()
				states, err := r.List(c.ctx)
				check(t, err)
				want.ID = "a"
				want.Incarnation = "1"
				want.Eligible = true
				want.Healthy = true
				want.Lease = 6 * time.Second
				want.Rev = a.rec.Rev
				if len(states) != 1 || fmt.Sprintf("%+v", states[0]) != fmt.Sprintf("%+v", want) {
					t.Errorf("got %+v\nwant %+v", states, want)
				}
				time.Sleep(4 * time.Second)
			}
			list(regent.MemberState{Alive: true, Heartbeats: 1})
			list(regent.MemberState{Alive: true, Heartbeats: 1, HeartbeatAge: 4 * time.Second})
			list(regent.MemberState{Heartbeats: 1, HeartbeatAge: 8 * time.Second})
			a.beat()
			list(regent.MemberState{Alive: true, Heartbeats: 2})
		})
	})
}

func TestMembersOverSlowAndFailingStores(t *testing.T) {
	t.Run("a_slow_request_does_not_age_what_it_shows", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			w.client.Adjust(func(f *faults) { f.Request.Min = 7900 * time.Millisecond })
			time.Sleep(1600 * time.Millisecond) // a list is on its way, and arrives at 9.4 s
			a.keep(7500 * time.Millisecond)     // the last heartbeat is at 9.1 s
			w.client.SetFaults(memstore.Faults{})
			time.Sleep(400 * time.Millisecond)
			c.joined("b", "1") // is notified, so that the next list shows the same heartbeat of a
			time.Sleep(500 * time.Millisecond)
			w.want("a+ b+")
			w.neverShowed("a-")
			w.neverShowed("a- b+")
			w.end()
		})
	})

	t.Run("a_slow_answer_does_not_age_what_it_shows", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			w.client.Adjust(func(f *faults) { f.Answer.Min = 7 * time.Second })
			time.Sleep(1400 * time.Millisecond)
			c.joined("b", "1") // is notified: a list is sent that still shows the first heartbeat of a
			a.keep(30 * time.Second)
			w.neverShowed("a-")
			w.neverShowed("a- b+")
			w.neverShowed("a- b-")
			w.end()
		})
	})

	t.Run("a_store_that_hangs_is_an_error_and_nobody_dies_by_it", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			w.client.Hang()
			a.keep(time.Minute)
			all := w.all()
			if len(all) < 4 || len(all) > 6 {
				t.Fatalf("yielded %d times in a minute of silence: %v", len(all), all)
			}
			if took := all[1].at.Sub(all[0].at); took < 12*time.Second || took > 15*time.Second {
				t.Errorf("the first error came after %v, want two lease durations", took)
			}
			for _, y := range all[1:] {
				if !errors.Is(y.err, regent.ErrStore) || !errors.Is(y.err, context.DeadlineExceeded) || y.states != nil {
					t.Errorf("yielded %v, %v", y.states, y.err)
				}
				if !strings.Contains(y.err.Error(), "within 12s") {
					t.Errorf("the error does not name the timeout: %v", y.err)
				}
			}
			w.client.Resume()
			a.keep(15 * time.Second)
			if now := w.all(); len(now) == len(all) || now[len(now)-1].err != nil {
				t.Errorf("the end of the trouble was not yielded: %v", now)
			}
			w.neverShowed("a-")
			w.end()
		})
	})

	t.Run("a_store_that_refuses_is_an_error_every_heartbeat_interval", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			w.client.Adjust(func(f *faults) { f.Outage = true })
			a.keep(15 * time.Second)
			all := w.all()
			if len(all) < 10 || len(all) > 12 || !errors.Is(all[1].err, memstore.ErrOutage) {
				t.Errorf("yielded %d times in 15 s: %v", len(all), all)
			}
			w.client.SetFaults(memstore.Faults{})
			a.keep(2 * time.Second)
			if now := w.all(); now[len(now)-1].err != nil {
				t.Errorf("the end of the trouble was not yielded: %v", now)
			}
			w.end()
		})
	})

	t.Run("the_loop_ends_with_its_context_while_the_store_hangs", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			w := c.watchMembers()
			w.client.Hang()
			time.Sleep(5 * time.Second)
			start := time.Now()
			w.end()
			if took := time.Since(start); took > 0 || len(w.all()) != 1 {
				t.Errorf("it took %v, and yielded %v", took, w.all())
			}
		})
	})

	t.Run("a_driver_that_panics_is_an_error", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			w := c.watchMembers(func(m *regent.Member) { m.Store = panickyLister{m.Store} })
			all := w.all()
			if len(all) != 1 || !errors.Is(all[0].err, regent.ErrStore) || !errors.Is(all[0].err, regent.ErrPanicked) {
				t.Errorf("yielded %v", all)
			}
			w.end()
		})
	})

	t.Run("a_register_that_cannot_be_read_keeps_its_member_for_its_lease", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			c.store.SetUnreadable(driver.MemberRegister("a"))
			time.Sleep(5 * time.Second)
			w.want("a+")
			w.changedWithin(time.Second, 3*time.Second, "a-")
			c.store.SetUnreadable()
			a.beat()
			w.changedWithin(0, 1500*time.Millisecond, "a+")
			w.end()
		})
	})

	t.Run("a_store_that_has_gone_back_shows_who_is_alive", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			b := c.joined("b", "1")
			w := c.watchMembers()
			before := c.store.Snapshot()
			c.joined("c", "1")
			a.keep(5 * time.Second)
			w.want("a+ b+ c+")
			c.store.Rollback(before)
			w.changedWithin(0, 1500*time.Millisecond, "a+ b+")

			// The old record of a counts anew, and a goes on from there. That of b is the one that was watched.
			a.rec, _ = c.store.Get(c.ctx, a.rec.Name)
			a.keep(5 * time.Second)
			w.want("a+ b-")
			b.rec, _ = c.store.Get(c.ctx, b.rec.Name)
			b.keep(2 * time.Second)
			w.want("a+ b+")

			// It goes back a second time.
			c.store.Rollback(before)
			time.Sleep(4 * time.Second)
			w.want("a+ b+")
			time.Sleep(5 * time.Second)
			w.want("a- b-")
			w.end()
		})
	})

	t.Run("an_edit_that_the_store_has_lost_counts_anew", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			before := c.store.Snapshot()
			a.rec.Edits++
			a.swap()
			time.Sleep(5 * time.Second)
			c.store.Rollback(before)
			time.Sleep(4 * time.Second)
			w.want("a+")
			w.end()
		})
	})
}

// panickyLister panics when it is asked for a list.
type panickyLister struct{ driver.Store }

func (panickyLister) List(context.Context, string) iter.Seq2[driver.Record, error] { panic("no list") }

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
