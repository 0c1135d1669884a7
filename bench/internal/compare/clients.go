package compare

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// parallel is how many clients work at once in the measurement of clients.
const parallel = 16

// clients measures how many terms several clients have in a second, each with a connection and an election of its own.
// The sides take turns, each on a server of its own.
func clients(ctx context.Context, l *lab, s settings) ([]table, error) {
	t := table{
		Title:   fmt.Sprintf("acquire + release, %d clients with an election each", parallel),
		Columns: []string{"pairs/s", "p50, µs", "p99, µs", "bytes out of Redis per pair"},
	}

	var teams []*team
	for _, side := range sides(30 * time.Second) {
		if side.postgres || side.name == rueidisPeer { // which hangs with so many clients that start at once
			continue
		}

		team, err := l.team(ctx, side)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", side.name, err)
		}
		teams = append(teams, team)
	}

	const rounds = 4
	for i := range rounds + 1 {
		for _, team := range teams {
			if err := team.work(ctx, s.window/(2*rounds), i > 0); err != nil { // the first round is warm-up
				return nil, fmt.Errorf("%s: %w", team.name, err)
			}
		}
	}

	for _, team := range teams {
		values := []number{round(number(len(team.took))/number(team.lasted.Seconds()), 0)}
		values = append(values, team.took.us(50, 99)...)
		out := number(team.bytes) / number(max(1, len(team.took)))
		t.Rows = append(t.Rows, row{team.name, append(values, round(out, 0))})
	}
	return []table{t}, nil
}

// team is the clients of one side.
type team struct {
	name    string
	server  *redisServer
	members []Contender

	took   sample
	lasted time.Duration
	bytes  int64
}

// team opens the clients of a side. Members of Regent run all the time, so that they do not start and stop with each
// term.
func (l *lab) team(ctx context.Context, s side) (*team, error) {
	srv, err := l.redis()
	if err != nil {
		return nil, err
	}

	t := &team{name: s.name, server: srv}
	for i := range parallel {
		c, err := s.open(ctx, srv.addr)
		if err != nil {
			return nil, err
		}

		l.onClose(c.Close)
		t.members = append(t.members, c)
		if m, ok := c.(*regentMember); ok {
			m.member.OnEvent = nil // nobody gets events of the peers either
			other := campaign(ctx, m, "bench:other"+strconv.Itoa(i))
			l.onClose(func() { _ = other.end() })
			if _, err := other.leads(ctx); err != nil {
				return nil, err
			}
		}
	}

	return t, nil
}

// work lets all clients have terms for a while.
func (t *team) work(ctx context.Context, d time.Duration, counts bool) error {
	before, err := t.server.sentBytes(ctx)
	if err != nil {
		return err
	}

	var mu sync.Mutex
	var all sync.WaitGroup
	var failed error
	began := time.Now()
	for i, c := range t.members {
		all.Go(func() {
			var took sample
			var err error
			for err == nil && time.Since(began) < d {
				from := time.Now()
				err = c.Once(ctx, "bench:leader"+strconv.Itoa(i))
				took = append(took, time.Since(from))
			}

			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				failed = err
			}
			if counts {
				t.took = append(t.took, took...)
			}
		})
	}

	all.Wait()
	if failed != nil || !counts {
		return failed
	}

	t.lasted += time.Since(began)
	after, err := t.server.sentBytes(ctx)
	t.bytes += after - before
	return err
}

// sentBytes returns how many bytes the server has sent to its clients.
func (s *redisServer) sentBytes(ctx context.Context) (int64, error) {
	text, err := s.client.Do(ctx, s.client.B().Info().Section("stats").Build()).ToString()
	if err != nil {
		return 0, err
	}

	_, rest, _ := strings.Cut(text, "total_net_output_bytes:")
	value, _, _ := strings.Cut(rest, "\r\n")
	return strconv.ParseInt(value, 10, 64)
}
