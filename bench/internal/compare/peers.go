package compare

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// Peer is a side of the command bench/peers.
type Peer struct {
	Name string

	// Start starts the peer's server with its files in dir. Peers with the same Server share one where they take turns,
	// and have one each where requests are counted. Those with Server redis or postgres need no Start.
	Server string
	Start  func(ctx context.Context, dir string) (Server, error)

	// Open connects one client. A peer that is Regent has a store and settings instead.
	Open   func(ctx context.Context, addr string) (Contender, error)
	Store  func(ctx context.Context, addr string) (driver.Store, error)
	Config regent.Config

	// Slow says that a takeover takes seconds, so that few rounds are measured.
	Slow bool

	// MostClients is how many clients are measured at most; 0 for any number.
	MostClients int

	// Asked says that the bench asks the server who leads, so that requests are not counted.
	Asked bool

	// Lease is how long after the death of a process its election is free at the latest; 0 if takeovers of its
	// processes are not measured. Those of Regent are 'regent serve'.
	Lease time.Duration

	inScripts []string // commands of Redis that only its scripts call
}

// side returns the peer as a side, for clients of its own.
func (p Peer) side() side {
	open := p.Open
	if p.Store != nil {
		open = openRunning(p.Store, p.Config)
	}
	return side{name: p.Name, open: open, store: p.Store, cfg: p.Config}
}

// plain returns the peer as a side whose clients campaign in nothing else.
func (p Peer) plain() side {
	s := p.side()
	if p.Store != nil {
		s.open = func(ctx context.Context, addr string) (Contender, error) {
			return newMemberOn(ctx, p.Store, addr, p.Config, reportLoss)
		}
	}
	return s
}

// peerSettings say how much the command bench/peers measures.
type peerSettings struct {
	settings
	slowRounds int
	clients    []int
	figures    []string
	only       []string
}

// peerFigures returns what the command bench/peers measures.
func peerFigures() []peerFigure {
	return []peerFigure{
		{"takeover", changeOfHands},
		{"clients", pairsOfAllClients},
		{"standbys", standbysOfPeers},
		{"processes", processesOfPeers},
		{"held", heldByPeers},
	}
}

type peerFigure struct {
	name    string
	measure func(context.Context, *peerServers, peerSettings, []Peer) ([]table, error)
}

// PeersMain runs the command bench/peers with more peers than those of this package, and returns its exit code.
func PeersMain(args []string, more []Peer) (exitCode int) {
	return invoke(args, func(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) error {
		if len(args) > 0 && args[0] == roleCommand {
			return runRole(ctx, args[1:], in, out, func(time.Duration) []side { return plainSides(allPeers(more)) })
		}
		return runPeers(ctx, args, out, errs, more)
	})
}

// runPeers makes the figures that args name.
func runPeers(ctx context.Context, args []string, out, errs io.Writer, more []Peer) error {
	set := flag.NewFlagSet("peers", flag.ContinueOnError)
	set.SetOutput(errs)
	small := set.Bool("quick", false, "a small run, to check that everything works")
	rounds := set.Int("rounds", 60, "takeovers of each side")
	window := set.Duration("window", 3*time.Second, "how long pairs are counted; requests are counted 20 times as long")
	figures := set.String("figures", "", "what to measure, with commas between; everything if empty")
	command := set.String("regent", "", "the regent command to measure; built from the checkout if empty")
	if err := set.Parse(args); err != nil {
		return err
	}

	s := peerSettings{
		settings: settings{
			rounds: *rounds, leases: min(2, *rounds), window: *window, settle: 80 * time.Second, groups: []int{0, 100},
			elections: 10_000, acquire: 4 * time.Minute, regent: *command,
		},
		slowRounds: min(5, *rounds), clients: []int{1, 16, 100}, only: set.Args(),
	}
	if *small {
		s.settings = settings{rounds: 2, leases: 1, window: 200 * time.Millisecond, settle: time.Second,
			groups: []int{0, 3}, elections: 100, regent: *command}
		s.slowRounds = 1
		s.clients = []int{1, 3}
	}
	if *figures != "" {
		s.figures = strings.Split(*figures, ",")
	}

	all, err := choosePeers(more, s.only)
	if err != nil {
		return err
	}
	chosen, err := chooseFigures(s.figures)
	if err != nil {
		return err
	}

	for _, f := range chosen {
		m := measurement{
			name: f.name, title: "Regent beside its peers: " + f.name,
			command: "make bench-peers PEERS='-figures " + f.name + "'",
			run: func(ctx context.Context, l *lab, _ settings) ([]table, error) {
				return f.measurePeers(ctx, l, s, all)
			},
		}
		made, err := m.measure(ctx, settings{})
		if err != nil {
			return err
		}
		if err := made.writeMarkdown(out); err != nil {
			return err
		}
	}
	return nil
}

// measurePeers makes a figure of the peers whose servers are installed.
func (f peerFigure) measurePeers(ctx context.Context, l *lab, s peerSettings, all []Peer) ([]table, error) {
	servers := &peerServers{lab: l, servers: map[string]Server{}}
	var notes []string
	if _, err := postgresBinary("postgres"); err != nil {
		notes = append(notes, err.Error())
		all = slices.DeleteFunc(slices.Clone(all), func(p Peer) bool { return p.Server == postgresServer })
	}

	tables, err := f.measure(ctx, servers, s, all)
	if err == nil && len(tables) > 0 {
		last := &tables[len(tables)-1]
		last.Notes = append(last.Notes, notes...)
	}
	return tables, err
}

// chooseFigures returns the figures with these names, or all if there are none.
func chooseFigures(names []string) ([]peerFigure, error) {
	all := peerFigures()
	var known []string
	for _, f := range all {
		known = append(known, f.name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no figure %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(f peerFigure) bool {
		return len(names) > 0 && !slices.Contains(names, f.name)
	}), nil
}

// allPeers returns the sides of this package and more.
func allPeers(more []Peer) []Peer {
	var all []Peer
	for _, s := range sides(30 * time.Second) {
		p := Peer{Name: s.name, Server: "redis", Open: s.open, Store: s.store, Config: s.cfg, inScripts: s.inScripts}
		if s.name == advisoryPeer {
			p.Server = postgresServer
		}
		all = append(all, p)
	}
	return append(all, more...)
}

// choosePeers returns all peers, or those with the names asked for.
func choosePeers(more []Peer, names []string) ([]Peer, error) {
	all := allPeers(more)
	for _, name := range names {
		if !slices.ContainsFunc(all, func(p Peer) bool { return p.Name == name }) {
			return nil, fmt.Errorf("no peer %q", name)
		}
	}
	return slices.DeleteFunc(all, func(p Peer) bool { return len(names) > 0 && !slices.Contains(names, p.Name) }), nil
}

const postgresServer = "postgres"

// openRunning opens members that lead another election all the time, as the process of a user does. Otherwise a member
// would start and stop with each term.
func openRunning(store func(context.Context, string) (driver.Store, error),
	cfg regent.Config) func(context.Context, string) (Contender, error) {
	return func(ctx context.Context, addr string) (Contender, error) {
		c, err := newMemberOn(ctx, store, addr, cfg, nil)
		if err != nil {
			return nil, err
		}

		other := campaign(ctx, c, "bench:running:"+rand.Text())
		if _, err := other.leads(ctx); err != nil {
			return nil, errors.Join(err, other.end())
		}
		return &runningMember{c, other}, nil
	}
}

type runningMember struct {
	Contender
	other *candidacy
}

func (m *runningMember) Close() {
	_ = m.other.end()
	m.Contender.Close()
}

// plainSides returns peers as sides, for processes of their own.
func plainSides(all []Peer) []side {
	var found []side
	for _, p := range all {
		found = append(found, p.plain())
	}
	return found
}

// sharing returns peers as sides whose clients are connected to the servers that they share.
func (s *peerServers) sharing(ctx context.Context, all []Peer) ([]side, error) {
	var found []side
	for _, p := range all {
		server, err := s.shared(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		one := p.side()
		open := one.open
		one.open = func(ctx context.Context, _ string) (Contender, error) { return open(ctx, server.Addr) }
		found = append(found, one)
	}
	return found, nil
}
