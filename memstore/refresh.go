package memstore

import (
	"context"
	"fmt"

	"github.com/regentd/regent"
)

var (
	_ regent.Refresher = (*Client)(nil)
	_ regent.Refresher = (*Store)(nil)
)

// Refresh reads many registers in one request.
func (s *Store) Refresh(ctx context.Context, known []regent.Lease) []regent.Outcome {
	return s.self.Refresh(ctx, known)
}

// Refresh reads many registers in one request. The request travels as one, and each read in it may
// still be lost on its own, as by a store that spreads its registers over several machines.
func (c *Client) Refresh(ctx context.Context, known []regent.Lease) []regent.Outcome {
	if len(known) == 0 {
		return nil
	}

	outs, err := c.refresh(ctx, known)
	if err != nil {
		outs = make([]regent.Outcome, len(known))
	}

	for i := range outs {
		if err != nil {
			outs[i].Err = err
		}
		if outs[i].Err != nil {
			outs[i] = regent.Outcome{Err: fmt.Errorf("refresh %q: %w", known[i].Name, outs[i].Err)}
		}
	}
	return outs
}

func (c *Client) refresh(ctx context.Context, known []regent.Lease) ([]regent.Outcome, error) {
	if err := c.send(ctx, Refresh, ""); err != nil {
		return nil, err
	}

	if c.perfect() {
		outs := make([]regent.Outcome, len(known))
		for i, l := range known {
			outs[i].Lease, outs[i].Err = c.store.get(l.Name)
		}
		return outs, nil
	}

	return carry(ctx, c, Refresh, "", func(f Faults, _ dice) []regent.Outcome {
		outs := make([]regent.Outcome, len(known))
		for i, l := range known {
			outs[i] = c.refreshOne(l.Name, f)
		}
		return outs
	})
}

// refreshOne carries out one read of a Refresh that has arrived.
func (c *Client) refreshOne(name string, f Faults) (o regent.Outcome) {
	d := c.dice(f, inRefresh, name)
	if d.loseRequest < f.LoseRequest || d.loseAnswer < f.LoseAnswer {
		return regent.Outcome{Err: ErrLost}
	}

	o.Lease, o.Err = c.store.get(name)
	return o
}
