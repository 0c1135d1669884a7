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

// addresses starts both servers, and returns a side's. Without PostgreSQL its side has none, and a note says so.
func (l *lab) addresses(ctx context.Context) (of func(side) (string, bool), notes []string, err error) {
	r, err := l.redis()
	if err != nil {
		return nil, nil, err
	}
	pg, err := l.postgres(ctx)
	if errors.Is(err, errNoPostgres) {
		notes, err = append(notes, err.Error()), nil
	}
	return func(s side) (string, bool) {
		if s.postgres {
			return pg, pg != ""
		}
		return r.addr, true
	}, notes, err
}

// stint is one candidacy.
type stint struct {
	led    chan time.Time // receives when it leads
	done   chan error     // receives when it has ended
	cancel context.CancelFunc
}

func stand(ctx context.Context, c contender, election string) *stint {
	ctx, cancel := context.WithCancel(ctx)
	s := &stint{led: make(chan time.Time, 1), done: make(chan error, 1), cancel: cancel}
	go func() {
		s.done <- c.hold(ctx, election, func() {
			select {
			case s.led <- time.Now():
			default: // it has been said
			}
		})
	}()
	return s
}

// leads waits until it leads, and returns since when.
func (s *stint) leads(ctx context.Context) (time.Time, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case at := <-s.led:
		return at, nil
	case err := <-s.done:
		s.done <- err
		return time.Time{}, fmt.Errorf("ended before it led: %w", errors.Join(err, ctx.Err()))
	case <-limit.C:
		return time.Time{}, fmt.Errorf("does not lead after %v", patience)
	}
}

func (s *stint) end() error {
	s.cancel()
	return <-s.done
}

// pair is two contenders for one election, one of which leads.
type pair struct {
	side     side
	election string // one of its own: both profiles of Regent are on one server
	both     [2]contender
	leader   int
	stint    *stint // of the leader
}

// election is the name wherever nobody else on the server has it.
const election = "bench:leader"

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
