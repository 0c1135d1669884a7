package memstore

import (
	"context"
	"fmt"

	"github.com/regentd/regent/driver"
)

var (
	_ driver.Refresher = (*Client)(nil)
	_ driver.Refresher = (*Store)(nil)
)

// Refresh reads many registers in one request.
func (s *Store) Refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	return s.self.Refresh(ctx, known)
}

// Refresh reads many registers in one request. Each read in it may still be lost on its own, as in a store that spreads
// its registers over several machines.
func (c *Client) Refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	if len(known) == 0 {
		return nil
	}

	outs, err := c.refresh(ctx, known)
	if err != nil {
		outs = make([]driver.Outcome, len(known))
	}

	for i := range outs {
		if err != nil {
			outs[i].Err = err
		}
		if outs[i].Err != nil {
			outs[i] = driver.Outcome{Err: fmt.Errorf("refresh %q: %w", known[i].Name, outs[i].Err)}
		}
	}

	return outs
}

func (c *Client) refresh(ctx context.Context, known []driver.Record) ([]driver.Outcome, error) {
	if err := c.send(ctx, Refresh, ""); err != nil {
		return nil, err
	}

	if c.perfect() {
		outs := make([]driver.Outcome, len(known))
		for i, l := range known {
			outs[i].Record, outs[i].Err = c.store.get(l.Name)
		}
		return outs, nil
	}

	return transmit(ctx, c, Refresh, "", func(f Faults, _ draws) []driver.Outcome {
		outs := make([]driver.Outcome, len(known))
		for i, l := range known {
			outs[i] = c.refreshOne(l.Name, f)
		}
		return outs
	})
}

// refreshOne executes one read of a Refresh that has arrived.
func (c *Client) refreshOne(name string, f Faults) (o driver.Outcome) {
	d := c.draws(f, inRefresh, name)
	if d.loseRequest < f.LoseRequest || d.loseAnswer < f.LoseAnswer {
		return driver.Outcome{Err: ErrNoAnswer}
	}

	o.Record, o.Err = c.store.get(name)
	return o
}
