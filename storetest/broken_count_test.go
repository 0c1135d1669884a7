package storetest

import (
	"context"
	"iter"

	"github.com/regentd/regent/driver"
)

// brokenCounts get Requests wrong.
func brokenCounts() []mutant {
	const counts = "every_call_is_counted_as_a_request"
	counting := func(name string, how func(c *countingClient)) mutant {
		return mutant{name, []string{counts}, func() Open {
			open := openPlain(func() func(driver.Record) string {
				next := counter()
				return func(l driver.Record) string { return next(l) }
			})
			return func() (driver.Store, error) {
				s, err := open()
				c := &countingClient{Store: s, counts: map[string]uint64{"get": 0, "swap": 0, "list": 0}}
				how(c)
				return c, err
			}
		}}
	}
	return []mutant{
		counting("gets_are_not_counted", func(c *countingClient) { c.skip = "get" }),
		counting("swaps_are_not_counted", func(c *countingClient) { c.skip = "swap" }),
		counting("lists_are_not_counted", func(c *countingClient) { c.skip = "list" }),
		counting("the_counts_can_be_cleared", func(*countingClient) {}),
	}
}

// countingClient counts its calls in a map that it shares with its caller, all kinds but one.
type countingClient struct {
	driver.Store
	counts map[string]uint64
	skip   string
}

func (c *countingClient) Requests() map[string]uint64 { return c.counts }

func (c *countingClient) count(kind string) {
	if kind != c.skip {
		c.counts[kind]++
	}
}

func (c *countingClient) Get(ctx context.Context, name string) (driver.Record, error) {
	c.count("get")
	return c.Store.Get(ctx, name)
}

func (c *countingClient) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	c.count("swap")
	return c.Store.Swap(ctx, l)
}

func (c *countingClient) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	c.count("list")
	return c.Store.List(ctx, prefix)
}
