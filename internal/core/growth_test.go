package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// BenchmarkGrowth shows that a step costs the same however many elections there are: what concerns one election costs
// that one, and what concerns all of them is done in portions.
func BenchmarkGrowth(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000, 100_000} {
		for name, cfg := range map[string]Config{"own": lockConfig(), "member": clusterConfig()} {
			c, ids := crowd(b, cfg, n)
			b.Run(fmt.Sprintf("%s/notice/%d", name, n), func(b *testing.B) {
				now := c.now
				for i := range b.N {
					now++
					c.Step(now, Notice{driver.Record{Name: ids[i%n], Rev: "other"}})
				}
			})
			b.Run(fmt.Sprintf("%s/all/%d", name, n), func(b *testing.B) {
				for range b.N {
					c.Step(c.now, Notice{})
				}
			})
		}
	}
}

// crowd returns a core with many elections that another member holds.
func crowd(b *testing.B, cfg Config, n int) (*Core, []string) {
	b.Helper()
	c := New(cfg, &counter{})
	now := Time(time.Hour)
	via := ""
	if !cfg.OwnLease {
		via = remote
	}

	var pending []Send
	step := func(in Input) {
		for _, e := range c.Step(now, in) {
			if s, ok := e.(Send); ok {
				pending = append(pending, s)
			}
		}
	}
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint("election ", i)
		step(Campaign{ids[i]})
	}
	step(Join{})
	for len(pending) > 0 || c.Next() <= now {
		if len(pending) == 0 {
			step(Tick{})
			continue
		}
		s := pending[0]
		pending = pending[1:]
		switch {
		case s.Verb == Swap:
			s.Record.Rev = "1"
			step(Answer{ID: s.ID, Outcome: Done, Record: s.Record})
		case s.Record.Name == own:
			step(Answer{ID: s.ID, Outcome: NotFound})
		case s.Record.Name == remote:
			r := beating(other, 50)
			r.Rev = "1"
			step(Answer{ID: s.ID, Outcome: Done, Record: r})
		default:
			r := held(other, 3, via)
			r.Name = s.Record.Name
			r.Rev = "1"
			step(Answer{ID: s.ID, Outcome: Done, Record: r})
		}
	}
	return c, ids
}
