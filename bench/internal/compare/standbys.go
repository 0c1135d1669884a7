package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// group is a leader and some standbys, with a server to themselves.
type group struct {
	side        side
	standbys    int
	addr        string
	requests    counter
	clients     []Contender
	candidacies []*candidacy

	before, after number
	began, ended  time.Time
}

// counter returns how many requests clients have sent to a server so far.
type counter func(context.Context) (number, error)

// counter returns one of all commands but those that only scripts call.
func (s *redisServer) counter(inScripts []string) counter {
	return func(ctx context.Context) (number, error) {
		calls, err := s.calls(ctx)
		return number(requests(nil, calls, inScripts)), err
	}
}

// standbys counts the requests that a leader and its standbys send to Redis while nothing changes. All groups wait at
// the same time, each on a server of its own, because counts do not depend on other groups.
func standbys(ctx context.Context, l *lab, s settings) ([]table, error) {
	var groups []*group
	defer func() {
		for _, c := range groups {
			c.close()
		}
	}()

	for _, side := range sides(8 * time.Second) {
		if side.postgres { // a waiter sends nothing there, and costs the server a process
			continue
		}
		for _, n := range s.groups {
			srv, err := l.redis()
			if err != nil {
				return nil, err
			}

			c := &group{side: side, standbys: n, addr: srv.addr, requests: srv.counter(side.inScripts)}
			groups = append(groups, c)

			if err := c.start(ctx); err != nil {
				return nil, fmt.Errorf("%s, %d standbys: %w", side.name, n, err)
			}
		}
	}

	if err := countAll(ctx, groups, s); err != nil {
		return nil, err
	}

	t := standbyTable(groups, s)
	t.Notes = append(t.Notes, "In the profile cluster every member, standbys too, sends a heartbeat every 1.5 s and "+
		"reads the leader's heartbeat every 2 s; in the profile lock standbys write nothing. rueidislock is woken; "+
		"its client sends a ping each second. redsync tries again after 50 to 250 ms, bsm/redislock every 100 ms, "+
		"and all peers renew a lease of 8 s every third of it.")
	return []table{t}, nil
}

// countAll counts the requests of all groups in the same window, after all have settled.
func countAll(ctx context.Context, groups []*group, s settings) error {
	if err := pause(ctx, s.settle, s.settle+1); err != nil {
		return err
	}

	for _, c := range groups {
		if err := c.count(ctx, &c.before, &c.began); err != nil {
			return err
		}
	}

	if err := pause(ctx, s.window, s.window+1); err != nil {
		return err
	}

	for _, c := range groups {
		if err := c.count(ctx, &c.after, &c.ended); err != nil {
			return err
		}
	}
	return nil
}

// standbyTable returns a row for each side, whose groups follow each other in the order of s.groups.
func standbyTable(groups []*group, s settings) table {
	t := table{Title: "requests per second", Notes: []string{
		fmt.Sprintf("Counted by the server for %v, after %v of settling.", s.window, s.settle),
	}}
	for _, n := range s.groups {
		t.Columns = append(t.Columns, fmt.Sprintf("leader + %d", n))
	}

	most := slices.Max(s.groups)
	t.Columns = append(t.Columns, fmt.Sprintf("per standby, of %d", most), "without its heartbeats")

	for i := 0; i < len(groups); i += len(s.groups) {
		of := groups[i : i+len(s.groups)]
		r := row{Side: of[0].side.name}
		var alone, all number
		for _, c := range of {
			rate := c.rate()
			r.Values = append(r.Values, rate)

			switch c.standbys {
			case 0:
				alone = rate
			case most:
				all = rate
			}
		}

		each := max(0, all-alone) / number(most)
		r.Values = append(r.Values, each, max(0, each-of[0].side.heartbeats()))
		t.Rows = append(t.Rows, r)
	}

	return t
}

// start starts the leader and the standbys.
func (c *group) start(ctx context.Context) error {
	for range c.standbys + 1 {
		client, err := c.side.open(ctx, c.addr)
		if err != nil {
			return err
		}

		c.clients = append(c.clients, client)
		st := campaign(ctx, client, election)
		c.candidacies = append(c.candidacies, st)
		if len(c.candidacies) == 1 {
			if _, err := st.leads(ctx); err != nil {
				return err
			}
		}
	}

	return nil
}

// count reads the counts, after a check that nothing has changed: the first one leads, and none has ended.
func (c *group) count(ctx context.Context, calls *number, at *time.Time) (err error) {
	for i, st := range c.candidacies {
		select {
		case err := <-st.done:
			st.done <- err
			return fmt.Errorf("%s: number %d of %d has ended: %w", c.side.name, i, c.standbys,
				errors.Join(err, ctx.Err()))
		case <-st.led:
			return fmt.Errorf("%s: number %d of %d leads now, so that something did change", c.side.name, i, c.standbys)
		default:
		}
	}

	*calls, err = c.requests(ctx)
	*at = time.Now()
	return err
}

// rate returns the requests per second between the two counts.
func (c *group) rate() number {
	return (c.after - c.before) / number(c.ended.Sub(c.began).Seconds())
}

// close ends the standbys first: at the end of the leader one of them would lead.
func (c *group) close() {
	for _, st := range slices.Backward(c.candidacies) {
		_ = st.end()
	}
	for _, client := range c.clients {
		client.Close()
	}
}
