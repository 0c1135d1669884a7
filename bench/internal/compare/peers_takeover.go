package compare

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// changeOfHands measures takeovers after a release, all sides by turns.
func changeOfHands(ctx context.Context, servers *peerServers, s peerSettings, all []Peer) ([]table, error) {
	here, err := servers.sharing(ctx, all)
	if err != nil {
		return nil, err
	}

	t := table{Title: "takeover after a release, ms", Columns: []string{"p50", "p99", "worst", "least", "rounds"}}
	var pairs []*pair
	defer func() {
		for _, p := range pairs {
			p.close()
		}
	}()

	for _, side := range here {
		p, err := newPair(ctx, side, "")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", side.name, err)
		}
		pairs = append(pairs, p)
	}

	took := map[string]sample{}
	for round := range s.rounds {
		for i, p := range pairs {
			if all[i].Slow && round >= s.slowRounds {
				continue
			}

			d, err := p.change(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.side.name, err)
			}
			took[p.side.name] = append(took[p.side.name], d)
		}
	}

	for _, p := range pairs {
		times := took[p.side.name]
		t.Rows = append(t.Rows, row{p.side.name, append(times.ms(50, 99, 100, 0), number(len(times)))})
	}
	return []table{t}, nil
}

// processesOfPeers measures the time from a signal to a leading process until another one leads: 'regent serve' on each
// store, and the peers that say when the election of a dead process is free.
func processesOfPeers(ctx context.Context, servers *peerServers, s peerSettings, all []Peer) ([]table, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	bin, err := servers.lab.command(ctx, s.settings)
	if err != nil {
		return nil, err
	}

	var kinds []processKind
	for _, p := range all {
		if p.Store == nil && p.Lease == 0 && p.Name != advisoryPeer {
			continue
		}

		server, err := servers.shared(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		kinds = append(kinds, p.process(self, bin, server.Addr))
	}

	terminated, killed, notes, err := servers.lab.successions(ctx, kinds, s.settings)
	if err != nil {
		return nil, err
	}
	notes = append(notes, "Regent is `regent serve`, with its reaper. Peers are processes of the bench's own. Those "+
		"with a lease wait for that of the process that was killed.")
	return []table{
		takeoverTable("after SIGTERM, ms", kinds, terminated, nil),
		takeoverTable("after SIGKILL, ms", kinds, killed, notes),
	}, nil
}

// process returns the process of a peer.
func (p Peer) process(self, bin, addr string) processKind {
	if p.Store != nil {
		if p.Server == "redis" {
			addr = "redis://" + addr
		}
		profile := "cluster"
		if p.Config.OwnLease {
			profile = "lock"
		}
		return serveKind(bin, addr, profile)
	}

	return processKind{name: p.Name, waits: saysWaits, leads: saysLeads, ttl: p.Lease, byLease: p.Lease > 0,
		command: func(string) *exec.Cmd { return exec.Command(self, role{Side: p.Name, Addr: addr}.args()...) }}
}
