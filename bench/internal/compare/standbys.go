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
	server      *redisServer
	clients     []Contender
	candidacies []*candidacy

	before, after map[string]int
	began, ended  time.Time
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

			c := &group{side: side, standbys: n, server: srv}
			groups = append(groups, c)

			if err := c.start(ctx); err != nil {
				return nil, fmt.Errorf("%s, %d standbys: %w", side.name, n, err)
			}
		}
	}

	if err := pause(ctx, s.settle, s.settle+1); err != nil {
		return nil, err
	}

	for _, c := range groups {
		if err := c.count(ctx, &c.before, &c.began); err != nil {
			return nil, err
		}
	}

	if err := pause(ctx, s.window, s.window+1); err != nil {
		return nil, err
	}

	for _, c := range groups {
		if err := c.count(ctx, &c.after, &c.ended); err != nil {
			return nil, err
		}
	}

	return []table{standbyTable(groups, s)}, nil
}

func standbyTable(groups []*group, s settings) table {
	t := table{Title: "requests per second", Notes: []string{
		fmt.Sprintf("Counted by the server for %v, after %v of settling. In the profile cluster every member, "+
			"standbys "+
			"too, sends a heartbeat every 1.5 s and reads the leader's heartbeat every 2 s; in the profile lock "+
			"standbys "+
			"write nothing. rueidislock is woken; its client sends a ping each second. redsync tries again "+
			"after 50 to "+
			"250 ms, bsm/redislock every 100 ms, and all peers renew a lease of 8 s every third of it.",
			s.window, s.settle),
	}}
	for _, n := range s.groups {
		t.Columns = append(t.Columns, fmt.Sprintf("leader + %d", n))
	}

	most := slices.Max(s.groups)
	t.Columns = append(t.Columns, fmt.Sprintf("per standby, of %d", most))

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

		r.Values = append(r.Values, max(0, all-alone)/number(most))
		t.Rows = append(t.Rows, r)
	}

	return t
}

// start starts the leader and the standbys.
func (c *group) start(ctx context.Context) error {
	for range c.standbys + 1 {
		client, err := c.side.open(ctx, c.server.addr)
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
func (c *group) count(ctx context.Context, calls *map[string]int, at *time.Time) (err error) {
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

	*calls, err = c.server.calls(ctx)
	*at = time.Now()
	return err
}

// rate returns the requests per second between the two counts.
func (c *group) rate() number {
	return number(requests(c.before, c.after, c.side.inScripts)) / number(c.ended.Sub(c.began).Seconds())
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
