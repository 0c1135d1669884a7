package compare

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/regentd/regent"
)

// Peer is a side of the command bench/peers.
type Peer struct {
	Name string

	// Start starts the peer's server with its files in dir, and returns its address. It is not called for a peer with
	// the same Server as one before.
	Server string
	Start  func(ctx context.Context, dir string) (addr string, stop func(), err error)

	// Open connects one client.
	Open func(ctx context.Context, addr string) (Contender, error)

	// Slow says that a takeover takes seconds, so that few rounds are measured.
	Slow bool

	// MostClients is how many clients are measured at most; 0 for any number.
	MostClients int
}

// peerSettings say how much the command bench/peers measures.
type peerSettings struct {
	rounds, slowRounds int
	clients            []int
	window             time.Duration
	only               []string
}

// hangLimit is how long after the end of its window a client may take to return. After that it counts as hanging.
const hangLimit = 15 * time.Second

// PeersMain runs the command bench/peers with more peers than those of this package, and returns its exit code.
func PeersMain(args []string, more []Peer) (exitCode int) {
	return invoke(args, func(ctx context.Context, args []string, _ io.Reader, out, errs io.Writer) error {
		return runPeers(ctx, args, out, errs, more)
	})
}

// runPeers makes the figures that args name.
func runPeers(ctx context.Context, args []string, out, errs io.Writer, more []Peer) error {
	set := flag.NewFlagSet("peers", flag.ContinueOnError)
	set.SetOutput(errs)
	small := set.Bool("quick", false, "a small run, to check that everything works")
	rounds := set.Int("rounds", 60, "takeovers of each side")
	window := set.Duration("window", 3*time.Second, "how long pairs are counted")
	if err := set.Parse(args); err != nil {
		return err
	}

	s := peerSettings{rounds: *rounds, slowRounds: min(5, *rounds), clients: []int{1, 16, 100}, window: *window,
		only: set.Args()}
	if *small {
		s = peerSettings{rounds: 2, slowRounds: 1, clients: []int{1, 3}, window: 200 * time.Millisecond,
			only: set.Args()}
	}

	all, err := choosePeers(more, s.only)
	if err != nil {
		return err
	}

	m := measurement{name: "peers", title: "Regent beside its peers", command: "make bench-peers",
		run: func(ctx context.Context, l *lab, _ settings) ([]table, error) { return comparePeers(ctx, l, s, all) }}
	f, err := m.measure(ctx, settings{})
	if err != nil {
		return err
	}
	return f.writeMarkdown(out)
}

// choosePeers returns the sides of this package and more, or those with the names asked for.
func choosePeers(more []Peer, names []string) ([]Peer, error) {
	var all []Peer
	for _, s := range sides(30 * time.Second) {
		p := Peer{Name: s.name, Server: "redis", Open: s.open}
		switch s.name {
		case advisoryPeer:
			p.Server = postgresServer
		case regentLock:
			p.Open = openRunning(regent.Lock())
		case regentCluster:
			p.Open = openRunning(regent.Cluster())
		}
		all = append(all, p)
	}

	all = append(all, more...)
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
func openRunning(cfg regent.Config) func(context.Context, string) (Contender, error) {
	return func(ctx context.Context, addr string) (Contender, error) {
		c, err := newRegentMember(ctx, addr, cfg, nil)
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

// comparePeers measures all sides in turn: the time of a takeover after a release, and acquisitions and releases by
// several clients, each in an election of its own.
func comparePeers(ctx context.Context, l *lab, s peerSettings, all []Peer) ([]table, error) {
	servers := peerServers{lab: l, addrs: map[string]string{}}
	var here []side
	slow := map[string]bool{}
	most := map[string]int{}
	for _, p := range all {
		addr, err := servers.start(ctx, p)
		if errors.Is(err, errNoPostgres) {
			servers.notes = append(servers.notes, p.Name+": "+err.Error())
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}

		slow[p.Name] = p.Slow
		most[p.Name] = p.MostClients
		here = append(here, side{name: p.Name, open: func(ctx context.Context, _ string) (Contender, error) {
			return p.Open(ctx, addr)
		}})
	}

	changed, err := changeOfHands(ctx, s, here, slow)
	if err != nil {
		return nil, err
	}
	tables := []table{changed}

	for _, n := range s.clients {
		few := slices.DeleteFunc(slices.Clone(here), func(s side) bool { return 0 < most[s.name] && most[s.name] < n })
		t, err := pairsOfClients(ctx, s, few, n)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}

	last := &tables[len(tables)-1]
	last.Notes = append(last.Notes, servers.notes...)
	return tables, nil
}

// peerServers are the servers of all sides, each started once.
type peerServers struct {
	lab   *lab
	addrs map[string]string
	notes []string
}

func (s *peerServers) start(ctx context.Context, p Peer) (addr string, err error) {
	if addr, ok := s.addrs[p.Server]; ok {
		return addr, nil
	}

	switch {
	case p.Server == "redis":
		var r *redisServer
		if r, err = s.lab.redis(); err == nil {
			addr = r.addr
		}
	case p.Server == postgresServer:
		addr, err = s.lab.postgres(ctx)
	default:
		var dir string
		if dir, err = s.lab.subdir(p.Server); err != nil {
			return "", err
		}

		var stop func()
		if addr, stop, err = p.Start(ctx, dir); err == nil {
			s.lab.onClose(stop)
		}
	}

	if err == nil {
		s.addrs[p.Server] = addr
	}
	return addr, err
}

// changeOfHands measures takeovers after a release.
func changeOfHands(ctx context.Context, s peerSettings, here []side, slow map[string]bool) (table, error) {
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
			return t, fmt.Errorf("%s: %w", side.name, err)
		}
		pairs = append(pairs, p)
	}

	took := map[string]sample{}
	for round := range s.rounds {
		for _, p := range pairs {
			if slow[p.side.name] && round >= s.slowRounds {
				continue
			}

			d, err := p.change(ctx)
			if err != nil {
				return t, fmt.Errorf("%s: %w", p.side.name, err)
			}
			took[p.side.name] = append(took[p.side.name], d)
		}
	}

	for _, p := range pairs {
		all := took[p.side.name]
		t.Rows = append(t.Rows, row{p.side.name, append(all.ms(50, 99, 100, 0), number(len(all)))})
	}
	return t, nil
}

// pairsOfClients measures n clients of each side, which acquire and release as fast as they can.
func pairsOfClients(ctx context.Context, s peerSettings, here []side, n int) (table, error) {
	t := table{
		Title:   fmt.Sprintf("acquire + release, clients: %d, each in an election of its own", n),
		Columns: []string{"pairs/s", "p50, µs", "p99, µs", "allocations/pair"},
	}
	for _, side := range here {
		r, err := clientsOf(ctx, side, n, s.window)
		switch {
		case errors.Is(err, errHangs):
			t.Notes = append(t.Notes, fmt.Sprintf("%s: a client did not return within %v.", side.name, hangLimit))
			r = row{side.name, []number{none, none, none, none}}
		case err != nil:
			return t, fmt.Errorf("%s, %d clients: %w", side.name, n, err)
		}
		t.Rows = append(t.Rows, r)
	}
	return t, nil
}

var errHangs = errors.New("a client hangs")

// clientsOf runs n clients of a side for a while.
func clientsOf(ctx context.Context, side side, n int, window time.Duration) (row, error) {
	clients := make([]Contender, 0, n)
	for range n {
		c, err := side.open(ctx, "")
		if err != nil {
			return row{}, err
		}
		clients = append(clients, c)
	}

	stopped := make(chan struct{})
	results := make(chan clientResult, n)
	start := make(chan struct{})
	var ready sync.WaitGroup
	for i, c := range clients {
		ready.Add(1)
		go runClient(ctx, c, fmt.Sprintf("bench:pairs:%d", i), &ready, start, stopped, results)
	}

	if !inTime(&ready) { // each has done one pair
		return row{}, errHangs
	}

	var from, to runtime.MemStats
	runtime.ReadMemStats(&from)
	began := time.Now()
	close(start)
	time.AfterFunc(window, func() { close(stopped) })

	var all sample
	var errs []error
	limit := time.NewTimer(window + hangLimit)
	defer limit.Stop()
	for range n {
		select {
		case r := <-results:
			all = append(all, r.took...)
			errs = append(errs, r.err)
		case <-limit.C:
			return row{}, errHangs // its goroutines stay
		}
	}

	took := time.Since(began)
	runtime.ReadMemStats(&to)
	for _, c := range clients {
		c.Close()
	}
	if err := errors.Join(errs...); err != nil || len(all) == 0 {
		return row{}, errors.Join(err, os.ErrDeadlineExceeded)
	}

	rate := number(len(all)) / number(took.Seconds())
	allocs := number(to.Mallocs-from.Mallocs) / number(len(all))
	return row{side.name, append([]number{rate}, append(all.us(50, 99), round(allocs, 0))...)}, nil
}

// inTime waits until all clients are ready, and reports whether that was soon enough.
func inTime(ready *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ready.Wait()
	}()

	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	select {
	case <-done:
		return true
	case <-limit.C:
		return false
	}
}

type clientResult struct {
	took sample
	err  error
}

// runClient acquires and releases until it is to stop. Its first pair is not measured.
func runClient(ctx context.Context, c Contender, election string, ready *sync.WaitGroup, start, stopped <-chan struct{},
	results chan<- clientResult) {
	var r clientResult
	defer func() { results <- r }()

	r.err = c.Once(ctx, election)
	ready.Done()
	<-start
	for r.err == nil {
		select {
		case <-stopped:
			return
		case <-ctx.Done():
			r.err = context.Cause(ctx)
			return
		default:
		}

		began := time.Now()
		r.err = c.Once(ctx, election)
		r.took = append(r.took, time.Since(began))
	}
}
