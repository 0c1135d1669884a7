package compare

import (
	"context"
	"fmt"
	"slices"
)

// requestWindow is how many times as long requests are counted as pairs.
const requestWindow = 20

// standbysOfPeers counts the requests that a leader and its standbys send while nothing changes. Each side has servers
// of its own.
func standbysOfPeers(ctx context.Context, servers *peerServers, s peerSettings, all []Peer) ([]table, error) {
	var groups []*group
	defer func() {
		for _, c := range groups {
			c.close()
		}
	}()

	for _, p := range all {
		if p.Asked || 0 < p.MostClients && p.MostClients < s.groups[len(s.groups)-1] {
			continue
		}
		for _, n := range s.groups {
			server, err := servers.own(ctx, p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
			if server.Requests == nil {
				break
			}

			c := &group{side: p.plain(), standbys: n, addr: server.Addr, requests: server.counter()}
			groups = append(groups, c)
			if err := c.start(ctx); err != nil {
				return nil, fmt.Errorf("%s, %d standbys: %w", p.Name, n, err)
			}
		}
	}

	s.window *= requestWindow
	if err := countAll(ctx, groups, s.settings); err != nil {
		return nil, err
	}
	t := standbyTable(groups, s.settings)
	t.Notes = append(t.Notes, "PostgreSQL counts transactions, etcd and NATS count messages from clients, "+
		"Redis counts commands.")
	return []table{t}, nil
}

// firstBytes returns the beginning of a text.
func firstBytes(text string, n int) string { return text[:min(n, len(text))] }

func (s Server) counter() counter {
	return func(ctx context.Context) (number, error) {
		n, err := s.Requests(ctx)
		return number(n), err
	}
}

// heldByPeers runs a process for each side that holds many elections, and measures what it costs to keep them: those
// whose processes are measured, Regent with the heartbeat of its member.
func heldByPeers(ctx context.Context, servers *peerServers, s peerSettings, all []Peer) ([]table, error) {
	s.window *= requestWindow
	t := heldTable(s.settings)
	for _, p := range all {
		if p.Lease == 0 && (p.Store == nil || p.Config.OwnLease) {
			continue
		}

		server, err := servers.own(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		r, err := holdFor(ctx, p.plain(), server.Addr, server.counter(), s.settings)
		switch {
		case err != nil && (p.Store != nil || ctx.Err() != nil):
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		case err != nil: // some peers cannot hold so many
			t.Notes = append(t.Notes, fmt.Sprintf("%s: %s", p.Name, firstBytes(err.Error(), 200)))
			r = row{p.Name, slices.Repeat([]number{none}, len(t.Columns))}
		}
		t.Rows = append(t.Rows, r)
	}
	return []table{t}, nil
}
