package elections_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/elections"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// join starts a member that campaigns for elections until the test ends.
func join(t *testing.T, store driver.Store, id string, change func(*regent.Config), names ...string) *regent.Member {
	t.Helper()
	cfg := regent.Cluster()
	if change != nil {
		change(&cfg)
	}

	m := &regent.Member{Store: store, ID: id, Addr: id + ":1", Config: cfg}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var duties []regent.Duty
		for _, name := range names {
			duties = append(duties, regent.Duty{Election: name, Name: name, Run: wait})
		}
		_ = m.Run(ctx, duties...)
	}()

	t.Cleanup(func() {
		cancel()
		<-done
	})
	return m
}

func wait(ctx context.Context, _ regent.Term) error {
	<-ctx.Done()
	return nil
}

// write writes a record as a member would.
func write(t *testing.T, store driver.Store, l driver.Record) driver.Record {
	t.Helper()
	before, err := store.Get(t.Context(), l.Name)
	if err == nil {
		l.Rev = before.Rev
	}

	l, err = store.Swap(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// page lists the store and returns all of it.
func page(t *testing.T, l *elections.Lister) elections.Answer {
	t.Helper()
	list, err := l.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list.Page(elections.Selection{Limit: 1000, Candidates: 1000, History: true})
}

func TestList(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		store := memstore.New()
		rank := func(priority int) func(*regent.Config) {
			return func(c *regent.Config) {
				c.Rank = regent.RankPriority
				c.Priority = priority
			}
		}
		join(t, store, "a", rank(5), "x", "y")
		time.Sleep(time.Minute)
		join(t, store, "b", rank(1), "x")
		join(t, store, "c", rank(5), "x")
		join(t, store, "d", func(c *regent.Config) {
			rank(9)(c)
			c.Ineligible = true
		}, "x")
		time.Sleep(time.Minute)

		l := &elections.Lister{Store: store, Rank: regent.RankPriority}
		if e := page(t, l).Elections[0]; e.HeartbeatAgeMs != nil || e.LeaseRemainingMs != nil ||
			e.State != elections.Led {
			t.Errorf("one list shows no age: %+v", e)
		}

		time.Sleep(3 * time.Second) // two heartbeats
		all := page(t, l)
		if all.Total != 2 || len(all.Elections) != 2 || all.Rank != regent.RankPriority || all.Next != "" {
			t.Fatalf("%+v", all)
		}

		x, y := all.Elections[0], all.Elections[1]
		if x.Name != "x" || x.Leader != "a" || x.LeaderAddr != "a:1" || x.Holder != "a" || x.Epoch != 1 ||
			x.Since.IsZero() || x.LeaseDurationMs != 6000 || x.Why.Reason != "first" || x.CandidateCount != 4 ||
			x.EligibleCount != 3 {
			t.Errorf("%+v", x)
		}
		if x.HeartbeatAgeMs == nil || *x.HeartbeatAgeMs != 0 || *x.LeaseRemainingMs != 6000 {
			t.Errorf("the heartbeat is new: %v", x)
		}
		if y.Name != "y" || len(y.Candidates) != 1 || y.Candidates[0].ID != "a" || !y.Candidates[0].Leads {
			t.Errorf("%+v", y)
		}

		var got []string
		for _, c := range x.Candidates {
			got = append(got, fmt.Sprintln(c.Rank, c.ID, c.Leads, c.CanLead, c.Why != ""))
		}
		want := []string{"1 a true true false\n", "1 c false true false\n", "3 b false true false\n",
			"0 d false false true\n"}
		if !slices.Equal(got, want) {
			t.Errorf("the candidates are %q, want %q", got, want)
		}
		if d := x.Candidates[3]; d.Eligible || !d.Healthy || !d.Alive || !strings.Contains(d.Why, "eligible is false") {
			t.Errorf("%+v", d)
		}
	})
}

// records are an election that is held by a member, and that member's register.
func records() (election, register driver.Record) {
	a := driver.Identity{ID: "a", Incarnation: "7.abc"}
	register = driver.Record{
		Name: driver.MemberRegister("a"), Holder: a, Epoch: 7, Nonce: 1, Duration: 6 * time.Second,
		Data: []byte(`{"eligible":true,"healthy":true,"elections":["x"]}`),
	}
	election = driver.Record{Name: "x", Holder: a, Epoch: 3, Nonce: 2, Duration: 6 * time.Second, Via: register.Name}
	return election, register
}

func TestHeartbeats(t *testing.T) {
	t.Run("an_election_whose_heartbeat_does_not_change_expires", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := memstore.New()
			election, register := records()
			write(t, store, register)
			write(t, store, election)
			l := &elections.Lister{Store: store}
			page(t, l)

			time.Sleep(2 * time.Second)
			register.Edits = 1 // no heartbeat
			write(t, store, register)
			time.Sleep(3 * time.Second)
			if e := page(t, l).Elections[0]; e.State != elections.Led || *e.HeartbeatAgeMs != 5000 ||
				*e.LeaseRemainingMs != 1000 {
				t.Errorf("%+v", e)
			}

			time.Sleep(time.Second)
			e := page(t, l).Elections[0]
			if e.State != elections.Expired || e.Leader != "" || e.Holder != "a" || *e.HeartbeatAgeMs != 6000 ||
				*e.LeaseRemainingMs != 0 || e.Why.Reason != "expired" || e.Why.Previous != "a" ||
				!strings.HasSuffix(e.Why.Text, "; nobody has taken over") {
				t.Errorf("%+v %+v", e, e.Why)
			}
			if c := e.Candidates[0]; c.CanLead || c.Alive || c.Leads || c.Why != "its heartbeat has expired" {
				t.Errorf("%+v", c)
			}

			register.Nonce++
			write(t, store, register)
			if e := page(t, l).Elections[0]; e.State != elections.Led || *e.HeartbeatAgeMs != 0 {
				t.Errorf("%+v", e)
			}
		})
	})

	t.Run("a_heartbeat_after_a_long_pause_between_two_lists_has_an_unknown_age", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := memstore.New()
			election, register := records()
			write(t, store, register)
			write(t, store, election)
			l := &elections.Lister{Store: store}
			page(t, l)
			time.Sleep(time.Second)
			register.Nonce++
			write(t, store, register)
			if e := page(t, l).Elections[0]; e.LeaseRemainingMs == nil || *e.LeaseRemainingMs != 6000 {
				t.Errorf("the heartbeat is at most a second old: %+v", e)
			}

			register.Nonce++
			write(t, store, register)
			time.Sleep(7 * time.Second) // its holder is silent, and nobody asks
			if e := page(t, l).Elections[0]; e.State != elections.Led || e.HeartbeatAgeMs != nil ||
				e.LeaseRemainingMs != nil {
				t.Errorf("the heartbeat may be 7 s old: %+v", e)
			}
			time.Sleep(6 * time.Second)
			if e := page(t, l).Elections[0]; e.State != elections.Expired {
				t.Errorf("%+v", e)
			}
		})
	})

	t.Run("an_election_with_a_lease_of_its_own_expires", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := memstore.New()
			election, _ := records()
			election.Via = ""
			write(t, store, election)
			l := &elections.Lister{Store: store}
			if e := page(t, l).Elections[0]; e.State != elections.Led || e.CandidateCount != 1 ||
				!e.Candidates[0].Leads {
				t.Errorf("%+v", e)
			}

			time.Sleep(6 * time.Second)
			if e := page(t, l).Elections[0]; e.State != elections.Expired || e.CandidateCount != 0 {
				t.Errorf("%+v", e)
			}
		})
	})

	t.Run("an_election_whose_holder_was_revoked_is_expired_at_once_with_the_reason", func(t *testing.T) {
		store := memstore.New()
		election, register := records()
		register.Holder = driver.Identity{}
		register.Data = nil
		register.Past = []driver.Past{{Epoch: 7, Holder: "a", Reason: "died", Ended: time.Unix(99, 0)}}
		write(t, store, register)
		write(t, store, election)

		e := page(t, &elections.Lister{Store: store}).Elections[0]
		if e.State != elections.Expired || e.Why.Reason != "died" || !e.Why.Ended.Equal(time.Unix(99, 0)) ||
			e.Why.Text != "the process of a died; nobody has taken over" {
			t.Errorf("%+v %+v", e, e.Why)
		}
	})

	t.Run("an_election_whose_holder_has_no_register_is_expired", func(t *testing.T) {
		store := memstore.New()
		election, _ := records()
		write(t, store, election)
		if e := page(t, &elections.Lister{Store: store}).Elections[0]; e.State != elections.Expired {
			t.Errorf("%+v", e)
		}
	})

	t.Run("a_list_that_shows_a_register_as_it_was_before_its_holder_joined_proves_nothing", func(t *testing.T) {
		store := &lateStore{Store: memstore.New()}
		election, register := records()
		old := register
		old.Holder = driver.Identity{}
		store.old = write(t, store, old)
		write(t, store, register)
		write(t, store, election)
		if e := page(t, &elections.Lister{Store: store}).Elections[0]; e.State != elections.Led {
			t.Errorf("%+v", e)
		}

		store.SetUnreadable(register.Name)
		if e := page(t, &elections.Lister{Store: store}).Elections[0]; e.State != elections.Led {
			t.Errorf("%+v", e)
		}
	})
}

// TestFinished checks that an election is finished if the work of its last leader ended, and nobody campaigns.
func TestFinished(t *testing.T) {
	for name, c := range map[string]struct {
		reason    regent.Reason
		candidate bool
		finished  bool
	}{
		"the_work_ended_and_nobody_campaigns": {regent.ReasonReturned, false, true},
		"somebody_campaigns":                  {regent.ReasonReturned, true, false},
		"the_last_leader_died":                {regent.ReasonDied, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			election, register := records()
			election.Holder = driver.Identity{}
			election.Past = []driver.Past{{Epoch: 3, Holder: "b", Reason: string(c.reason), Ended: time.Unix(99, 0)}}
			write(t, store, election)
			if c.candidate {
				write(t, store, register)
			}

			e := page(t, &elections.Lister{Store: store}).Elections[0]
			if e.State != elections.Vacant || e.Finished != c.finished {
				t.Errorf("%+v", e)
			}
		})
	}
}

// lateStore is a store whose lists show one register as it was before it changed.
type lateStore struct {
	*memstore.Store
	old driver.Record
}

func (s *lateStore) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		for l, err := range s.Store.List(ctx, prefix) {
			if l.Name == s.old.Name {
				l, err = s.old, nil
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

func TestPages(t *testing.T) {
	store := memstore.New()
	for i := range 25 {
		write(t, store, driver.Record{
			Name: fmt.Sprintf("e%02d", i), Epoch: 2, Nonce: 1, Paused: i == 3,
			Past: []driver.Past{{Epoch: 1, Holder: "b"}, {Epoch: 2, Holder: "a", Reason: "stepped down"}},
		})
	}
	write(t, store, driver.Record{Name: driver.FloorRegister, Epoch: 9, Nonce: 1})
	write(t, store, driver.Record{Name: "z", Epoch: 1, Nonce: 1})
	store.SetUnreadable("z")

	list, err := (&elections.Lister{Store: store}).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	after := ""
	for pages := 1; ; pages++ {
		a := list.Page(elections.Selection{After: after, Limit: 10, Candidates: 5})
		for _, e := range a.Elections {
			names = append(names, e.Name)
			if e.State != elections.Vacant || e.Paused != (e.Name == "e03") || e.Why.Previous != "a" {
				t.Errorf("%+v", e)
			}
		}
		if a.Total != 25 || a.Truncated || !slices.Equal(a.Unreadable, []string{"z"}) {
			t.Errorf("%+v", a)
		}
		if a.Next == "" {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
		after = a.Next
	}
	if len(names) != 25 || !slices.IsSorted(names) {
		t.Errorf("%q", names)
	}

	a := list.Page(elections.Selection{After: "e23x", Limit: 10})
	if len(a.Elections) != 1 || a.Elections[0].Name != "e24" {
		t.Errorf("%+v", a)
	}
	for _, history := range []bool{false, true} {
		e := list.Page(elections.Selection{Limit: 1, History: history}).Elections[0]
		if (len(e.Terms) == 2) != history {
			t.Errorf("history %v: %+v", history, e)
		}
	}
	if a := list.Page(elections.Selection{After: "zz", Limit: 10}); a.Elections == nil || len(a.Elections) != 0 {
		t.Errorf("%+v", a)
	}
}

func TestHugeStore(t *testing.T) {
	store := memstore.New()
	past := []driver.Past{{Epoch: 1, Holder: "b"}, {Epoch: 2, Holder: "a"}}
	for i := range 100_001 {
		write(t, store, driver.Record{Name: fmt.Sprintf("e%06d", i), Epoch: 2, Nonce: 1, Past: past})
	}

	a := page(t, &elections.Lister{Store: store})
	if a.Total != 100_001 || !a.Truncated || len(a.Elections) != 1000 || a.Next == "" {
		t.Errorf("%d, %v, %d, %q", a.Total, a.Truncated, len(a.Elections), a.Next)
	}
	if e := a.Elections[0]; e.Terms != nil || e.Why.Previous != "a" {
		t.Errorf("of a store this large no history is kept: %+v", e)
	}
}
