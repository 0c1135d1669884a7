package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// takeover is the time from before a leader begins to give up an election until a standby that waits for it leads. Each of the two has a
// client of its own; both are in this process, so that one clock sees both ends.
func takeover(ctx context.Context, l *lab, s settings) ([]table, error) {
	t := table{Title: "after a release, ms", Columns: []string{"p50", "p99", "worst", "least", "p50 x rueidislock", "rounds"}}
	open, notes, err := l.addresses(ctx)
	if err != nil {
		return nil, err
	}
	var pairs []*pair
	defer func() {
		for _, p := range pairs {
			p.close()
		}
	}()
	for _, side := range sides(30 * time.Second) {
		if addr, ok := open(side); ok {
			p, err := newPair(ctx, side, addr)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", side.name, err)
			}
			pairs = append(pairs, p)
		}
	}
	took := map[string]sample{}
	for range s.rounds {
		for _, p := range pairs {
			d, err := p.change(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.side.name, err)
			}
			took[p.side.name] = append(took[p.side.name], d)
		}
	}
	for _, p := range pairs {
		all := took[p.side.name]
		t.Rows = append(t.Rows, row{p.side.name, append(all.ms(50, 99, 100, 0), ratio(all, took[rueidisPeer], 50), number(len(all)))})
	}
	t.Notes = notes
	return []table{t}, nil
}

// pair is two contenders for one election, one of which leads.
type pair struct {
	side     side
	election string // one of its own: both profiles of Regent are on one server
	both     [2]contender
	leader   int
	stint    *stint // of the leader
}

func newPair(ctx context.Context, s side, addr string) (*pair, error) {
	p := &pair{side: s, election: "bench:" + s.name}
	for i := range p.both {
		c, err := s.open(ctx, addr)
		if err != nil {
			p.close()
			return nil, err
		}
		p.both[i] = c
	}
	p.stint = stand(ctx, p.both[0], p.election)
	if _, err := p.stint.leads(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// change has the other one lead, and returns how long it took.
func (p *pair) change(ctx context.Context) (time.Duration, error) {
	next := stand(ctx, p.both[1-p.leader], p.election)
	// Long enough for it to wait, and at a moment that no poll is bound to.
	if err := pause(ctx, 50*time.Millisecond, 300*time.Millisecond); err != nil {
		return 0, errors.Join(err, next.end())
	}
	before := p.stint
	began := time.Now()
	before.cancel()
	at, err := next.leads(ctx)
	if err != nil {
		return 0, errors.Join(err, next.end())
	}
	p.stint, p.leader = next, 1-p.leader
	return at.Sub(began), <-before.done
}

func (p *pair) close() {
	if p.stint != nil {
		_ = p.stint.end()
	}
	for _, c := range p.both {
		if c != nil {
			c.close()
		}
	}
}
