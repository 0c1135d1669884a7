package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// crowd is a leader and some standbys, with a server to themselves.
type crowd struct {
	side     side
	standbys int
	server   *redisServer
	clients  []contender
	stints   []*stint

	before, after map[string]int
	began, ended  time.Time
}

// standbys counts what a leader and those who wait for it ask of Redis while nothing changes. All crowds wait at the same time, each on a
// server of its own: counts do not depend on who else is there, and waiting takes its time.
func standbys(ctx context.Context, l *lab, s settings) ([]table, error) {
	var crowds []*crowd
	defer func() {
		for _, c := range crowds {
			c.close()
		}
	}()
	for _, side := range sides(8 * time.Second) {
		if side.postgres { // where who waits asks nothing, and costs the server a process
			continue
		}
		for _, n := range s.crowds {
			srv, err := l.redis()
			if err != nil {
				return nil, err
			}
			c := &crowd{side: side, standbys: n, server: srv}
			crowds = append(crowds, c)
			if err := c.gather(ctx); err != nil {
				return nil, fmt.Errorf("%s, %d standbys: %w", side.name, n, err)
			}
		}
	}
	if err := pause(ctx, s.settle, s.settle+1); err != nil {
		return nil, err
	}
	for _, c := range crowds {
		if err := c.look(ctx, &c.before, &c.began); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, s.window, s.window+1); err != nil {
		return nil, err
	}
	for _, c := range crowds {
		if err := c.look(ctx, &c.after, &c.ended); err != nil {
			return nil, err
		}
	}
	return []table{standbyTable(crowds, s)}, nil
}

func standbyTable(crowds []*crowd, s settings) table {
	t := table{Title: "requests per second", Notes: []string{
		fmt.Sprintf("Counted by the server for %v, after %v of settling. In the profile cluster every member, standbys too, heartbeats every 1.5 s and looks at the leader's heartbeat every 2 s; in the profile lock standbys write nothing. rueidislock is woken; its client sends a ping each second. redsync tries again after 50 to 250 ms, bsm/redislock every 100 ms, and all peers renew a lease of 8 s every third of it.", s.window, s.settle),
	}}
	for _, n := range s.crowds {
		t.Columns = append(t.Columns, fmt.Sprintf("leader + %d", n))
	}
	most := slices.Max(s.crowds)
	t.Columns = append(t.Columns, fmt.Sprintf("per standby, of %d", most))
	for i := 0; i < len(crowds); i += len(s.crowds) {
		of := crowds[i : i+len(s.crowds)]
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

func (c *crowd) gather(ctx context.Context) error {
	for range c.standbys + 1 {
		client, err := c.side.open(ctx, c.server.addr)
		if err != nil {
			return err
		}
		c.clients = append(c.clients, client)
		st := stand(ctx, client, election)
		c.stints = append(c.stints, st)
		if len(c.stints) == 1 {
			if _, err := st.leads(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// look counts, after a check that nothing has changed: the first one leads, nobody has ended.
func (c *crowd) look(ctx context.Context, calls *map[string]int, at *time.Time) (err error) {
	for i, st := range c.stints {
		select {
		case err := <-st.done:
			st.done <- err
			return fmt.Errorf("%s: number %d of %d has ended: %w", c.side.name, i, c.standbys, errors.Join(err, ctx.Err()))
		case <-st.led:
			return fmt.Errorf("%s: number %d of %d has come to lead, so that something did change", c.side.name, i, c.standbys)
		default:
		}
	}
	*calls, err = c.server.calls(ctx)
	*at = time.Now()
	return err
}

func (c *crowd) rate() number {
	return number(requests(c.before, c.after, c.side.inScripts)) / number(c.ended.Sub(c.began).Seconds())
}

// close ends the standbys first: the leader's end would make one of them lead.
func (c *crowd) close() {
	for _, st := range slices.Backward(c.stints) {
		_ = st.end()
	}
	for _, client := range c.clients {
		client.close()
	}
}
