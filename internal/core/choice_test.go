package core

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// What a choice among many candidates costs: 1,000 candidates in each of 10,000 elections.

// fellow returns the register of one of many members, which runs for everything.
func fellow(i int) driver.Record {
	r := anywhere(fmt.Sprintf("n%04d", i))
	r.Data = []byte(`{"eligible":true,"healthy":true,"priority":` + fmt.Sprint(i%7) + `,"elections":["*"]}`)
	return r
}

// choices drives a core whose elections become free all at once, when their leader leaves, and counts steps.
type choices struct {
	c       *Core
	now     Time
	members []driver.Record
	pending []Send
	left    bool // the leader has

	ticks  int
	claims int
	lists  int
	took   []time.Duration // by each step
}

func (x *choices) step(in Input) {
	from := time.Now()
	effects := x.c.Step(x.now, in)
	x.took = append(x.took, time.Since(from))
	for _, e := range effects {
		if s, ok := e.(Send); ok {
			x.pending = append(x.pending, s)
		}
	}
}

// settle answers everything, and calls the core as long as it has something to do at this moment.
func (x *choices) settle() {
	for len(x.pending) > 0 || x.c.Next() <= x.now+1000 {
		if len(x.pending) == 0 {
			x.ticks++
			x.now = max(x.now, x.c.Next())
			x.step(Tick{})
			continue
		}
		s := x.pending[0]
		x.pending = x.pending[1:]
		a := Answer{ID: s.ID, Outcome: Done, Record: s.Record}
		a.Record.Rev = "1"
		switch {
		case s.Verb == List:
			x.lists++
			a.Records, a.Partial = s.Seek.End(x.members)
		case s.Verb == Swap && s.Record.Name != x.c.member.rec.Name:
			x.claims++
		case s.Verb == Swap:
		case s.Record.Name == x.c.member.rec.Name:
			a.Outcome = NotFound
		case s.Record.Name == remote:
			a.Record = beating(other, 50)
			a.Record.Rev = "1"
			if x.left {
				a.Record = driver.Record{Name: remote, Rev: "2", Epoch: 1, Nonce: 51}
			}
		default:
			a.Record = held(other, 3, remote)
			a.Record.Name = s.Record.Name
			a.Record.Rev = "1"
		}
		x.step(a)
	}
}

// freed returns a core whose elections have just become free, and that has not chosen yet.
func freed(cfg Config, members, elections int) *choices {
	x := &choices{c: New(cfg, &counter{}), now: Time(time.Hour)}
	for i := range members {
		m := fellow(i)
		m.Rev = "1"
		x.members = append(x.members, m)
	}
	for _, name := range names(elections) {
		x.step(Campaign{name})
	}
	x.step(Join{})
	x.settle()
	x.left = true
	x.ticks = 0
	x.took = nil
	x.step(Notice{driver.Record{Name: remote}})
	return x
}

func TestChoiceGrowth(t *testing.T) {
	const members = 1000
	const elections = 10_000

	t.Run("a_choice_among_many_candidates_takes_no_more_steps_than_one_among_few", func(t *testing.T) {
		for _, rank := range []string{RankFirst, RankPriority} {
			few := freed(ranked(rank), 20, elections)
			few.settle()
			many := freed(ranked(rank), members, elections)
			many.settle()
			t.Logf("rank %s: %d and %d steps, %d and %d claims", rank, few.ticks, many.ticks, few.claims, many.claims)
			equal(t, "lists", many.lists, 1)
			taken := members * (16 + 2*pointsEach) / takeIn     // of the list
			if many.ticks > few.ticks+taken+elections/portion { // those that are left to others are looked at once more
				t.Errorf("rank %s: %d steps among %d candidates, %d among 20", rank, many.ticks, members, few.ticks)
			}
		}
	})

	t.Run("a_ranked_choice_looks_at_the_best_two_candidates_only", func(t *testing.T) {
		x := freed(ranked(RankPriority), members, elections)
		x.settle()
		r := &x.c.roster
		equal(t, "candidates", len(r.everywhere), members)
		for _, i := range r.everywhere[2:] {
			r.peers.all[i] = nil // whoever looks at it panics
		}
		for _, name := range names(elections) {
			e := x.c.elections.all[x.c.names[name]]
			equal(t, "yields", x.c.yields(e), true)
			equal(t, "successor", x.c.successor(name), r.peers.all[r.everywhere[0]].id)
		}
	})

	t.Run("a_share_is_found_at_the_first_point_that_is_looked_at", func(t *testing.T) {
		x := freed(ranked(RankFirst), members, elections)
		x.settle()
		looked := 0
		for _, name := range names(elections) {
			_, ok := x.c.roster.ring.near(hash(name), math.MaxUint64, func(uint32) bool { looked++; return false })
			equal(t, "found", ok, true)
		}
		equal(t, "looked at", looked, elections)
		if x.claims < elections/members/4 || x.claims > 4*elections/members {
			t.Errorf("%d of %d elections are claimed by one of %d members", x.claims, elections, members)
		}
	})

	t.Run("a_list_that_shows_nothing_new_is_compared_and_no_more", func(t *testing.T) {
		x := freed(ranked(RankPriority), members, 2) // for one alone the list ends at the first better candidate
		x.settle()
		equal(t, "lists", x.lists, 1)
		cost := 0
		for i := range x.members {
			cost += x.c.takeMember(&x.members[i])
		}
		equal(t, "cost", cost, members)
	})
}

// BenchmarkChoice shows the longest step while 10,000 elections that have become free are chosen among candidates. All
// runs do the same steps, so each step counts as in the run that was disturbed least.
func BenchmarkChoice(b *testing.B) {
	for _, rank := range []string{RankFirst, RankPriority} {
		for _, members := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", rank, members), func(b *testing.B) {
				var took []time.Duration
				for range b.N {
					x := freed(ranked(rank), members, 10_000)
					x.settle()
					if took == nil {
						took = x.took
					}
					for i := range took {
						took[i] = min(took[i], x.took[i])
					}
				}
				b.ReportMetric(float64(slices.Max(took).Nanoseconds()), "ns/longest-step")
			})
		}
	}
}

// TestListPortions shows that no step takes in a whole list, however much the members say.
func TestListPortions(t *testing.T) {
	x := freed(ranked(RankPriority), 0, 1)
	for i := range 100 {
		m := anywhere(fmt.Sprintf("n%04d", i), names(100)...)
		m.Rev = "1"
		x.members = append(x.members, m)
	}
	for x.c.roster.call.id == 0 {
		s := x.pending[0]
		x.pending = x.pending[1:]
		x.step(Answer{ID: s.ID, Outcome: Done, Record: driver.Record{Name: s.Record.Name, Rev: "2", Epoch: 1,
			Nonce: 51}})
	}
	before := 0
	most := 0
	x.step(Answer{ID: x.c.roster.call.id, Outcome: Done, Records: x.members})
	for n := len(x.c.roster.byName); n > before; n = len(x.c.roster.byName) {
		most = max(most, n-before)
		before = n
		x.now = max(x.now, x.c.Next())
		x.step(Tick{})
	}
	equal(t, "members", before, 100)
	if most > 12 { // each of them costs more than 100
		t.Errorf("one step has taken in %d members that name 100 elections each", most)
	}
}
