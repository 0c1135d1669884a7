package compare

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// takeover measures the time from before a leader begins to release an election until a standby leads. Each has a
// client of its own. Both are in this process, so that one clock measures both ends.
func takeover(ctx context.Context, l *lab, s settings) ([]table, error) {
	t := table{Title: "after a release, ms",
		Columns: []string{"p50", "p99", "worst", "least", "p50 x rueidislock", "rounds"}}
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
		t.Rows = append(t.Rows, row{p.side.name,
			append(all.ms(50, 99, 100, 0), ratio(all, took[rueidisPeer], 50), number(len(all)))})
	}

	t.Notes = notes
	return []table{t}, nil
}

// pair is two contenders in one election, one of which leads.
type pair struct {
	side      side
	election  string // of this pair alone: both profiles of Regent are on one server
	both      [2]Contender
	leader    int
	candidacy *candidacy // of the leader
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

	p.candidacy = campaign(ctx, p.both[0], p.election)
	if _, err := p.candidacy.leads(ctx); err != nil {
		p.close()
		return nil, err
	}

	return p, nil
}

// change makes the other one lead, and returns how long it took.
func (p *pair) change(ctx context.Context) (time.Duration, error) {
	next := campaign(ctx, p.both[1-p.leader], p.election)
	// Long enough that it waits, and at a random time between polls.
	if err := pause(ctx, 50*time.Millisecond, 300*time.Millisecond); err != nil {
		return 0, errors.Join(err, next.end())
	}

	before := p.candidacy
	began := time.Now()
	before.cancel()

	at, err := next.leads(ctx)
	if err != nil {
		return 0, errors.Join(err, next.end())
	}

	p.candidacy = next
	p.leader = 1 - p.leader
	return at.Sub(began), <-before.done
}

func (p *pair) close() {
	if p.candidacy != nil {
		_ = p.candidacy.end()
	}
	for _, c := range p.both {
		if c != nil {
			c.Close()
		}
	}
}
