package regent_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
)

// churn is a cluster of which most members watch their leader seldom. Those who watch it closely are replaced, cut off
// and stopped at once, while others ask the leader for something and retire elections. New members have new IDs.
type churn struct {
	*cluster
	rng     *rand.Rand
	change  []func(*regent.Member)
	nodes   []*node // those that run
	all     []*node
	results chan error
	asked   int
}

// join starts a member with an ID that nobody had.
func (c *churn) join() {
	n := c.member(fmt.Sprintf("m%03d", len(c.all)*37%1000), c.change...).lead()
	c.nodes = append(c.nodes, n)
	c.all = append(c.all, n)
}

// pass lets time pass, in which at most one leads.
func (c *churn) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		synctest.Wait()
		var who []string
		for _, n := range c.nodes {
			if n.leads() {
				who = append(who, n.ID)
			}
		}

		if len(who) > 1 {
			c.t.Fatalf("%v lead", who)
		}
	}
}

// victims are those who watch closely if the smallest IDs do, and in every other case the leader too.
func (c *churn) victims() []*node {
	var first []*node
	too := c.rng.IntN(2) == 0
	slices.SortFunc(c.nodes, func(a, b *node) int { return strings.Compare(a.ID, b.ID) })
	for _, n := range c.nodes {
		if leads := n.leads(); leads && too || !leads && len(first) < 3 {
			first = append(first, n)
		}
	}

	return first
}

// replace has others run in place of some.
func (c *churn) replace(gone []*node) {
	c.nodes = slices.DeleteFunc(c.nodes, func(n *node) bool { return slices.Contains(gone, n) })
	for range gone {
		c.join()
	}
}

// suffer has members suffer a fault for a while.
func (c *churn) suffer(some []*node, f faults) {
	for _, n := range some {
		n.client.SetFaults(f)
	}

	c.pass(time.Duration(c.rng.IntN(30)) * time.Second)
	for _, n := range some {
		n.client.SetFaults(faults{})
	}
}

// ask makes a request that must end.
func (c *churn) ask(f func(ctx context.Context) error) {
	c.asked++
	go func() {
		ctx, cancel := context.WithTimeout(c.ctx, time.Hour)
		defer cancel()
		c.results <- f(ctx)
	}()
}

// happen lets one thing happen.
func (c *churn) happen() {
	some := c.victims()
	one := c.nodes[c.rng.IntN(len(c.nodes))]
	other := c.nodes[c.rng.IntN(len(c.nodes))]
	switch c.rng.IntN(6) {
	case 0:
		crash(some...)
		c.replace(some)
	case 1:
		for _, n := range some {
			go n.quit()
		}
		c.replace(some)
	case 2:
		c.suffer(some, cut)
	case 3:
		c.suffer(some, faults{CutAnswers: true})
	case 4:
		c.ask(func(ctx context.Context) error { return one.HandOff(ctx, "seat", other.ID) })
	default:
		c.ask(func(ctx context.Context) error { return one.Retire(ctx, "other", 0) })
	}

	c.pass(time.Duration(c.rng.IntN(25)) * time.Second)
}

// TestChurn wants that at most one leads at any time, that every request ends, and that somebody leads in time once
// nothing happens any more.
func TestChurn(t *testing.T) {
	for seed := range uint64(4) {
		for name, change := range map[string]func(*regent.Member){
			"with_push": func(*regent.Member) {}, "without_push": withoutPush,
		} {
			t.Run(fmt.Sprint(name, "_seed_", seed), func(t *testing.T) {
				bubble(t, func(cluster *cluster) {
					rank := []regent.Rank{regent.RankFirst, regent.RankLexicographic}[seed%2]
					cfg := config(regent.Cluster(), func(cfg *regent.Config) { cfg.Rank = rank })
					c := &churn{cluster: cluster, rng: rand.New(rand.NewPCG(seed, 1)), results: make(chan error, 100)}
					c.change = []func(*regent.Member){cfg, change}
					for range 9 {
						c.join()
					}

					c.pass(40 * time.Second)
					for range 30 {
						c.happen()
					}

					leader(t, 2*time.Minute, c.nodes...)
					c.pass(time.Minute)
					gone := c.victims()
					crash(gone...)
					c.nodes = slices.DeleteFunc(c.nodes, func(n *node) bool { return slices.Contains(gone, n) })
					leader(t, 2*time.Minute, c.nodes...)
					for range c.asked {
						if err := <-c.results; errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("a request has not ended in an hour: %v", err)
						}
					}
					quitAll(c.all)
				})
			})
		}
	}
}
