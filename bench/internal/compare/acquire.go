package compare

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/store/redis"
)

// operation is repeated by one client that is alone with its key.
type operation struct {
	name      string
	do        func(context.Context) error
	server    *redisServer // that counts its requests; nil if it is not Redis
	inScripts []string

	took             sample
	allocs, requests number
}

const (
	rawPair = "raw `SET NX PX` + `DEL`, the floor"
	rawSet  = "raw `SET PX`, the floor"
)

// turns is the number of operations in a round.
const turns = 20

// acquire compares an acquisition and a release with the simplest pair of commands, and a renewal with the simplest
// command.
func acquire(ctx context.Context, l *lab, s settings) ([]table, error) {
	srv, err := l.redis()
	if err != nil {
		return nil, err
	}

	pairs, err := l.pairs(ctx, srv)
	if err != nil {
		return nil, err
	}

	var notes []string
	if pg, err := l.postgres(ctx); err == nil {
		c, err := openAdvisory(ctx, pg)
		if err != nil {
			return nil, err
		}

		l.onClose(c.Close)
		pairs = append(pairs, &operation{name: advisoryPeer, do: func(ctx context.Context) error {
			return c.Once(ctx, election)
		}})
	} else if notes = append(notes, err.Error()); !errors.Is(err, errNoPostgres) {
		return nil, err
	}

	renewals, err := l.renewals(ctx, srv)
	if err != nil {
		return nil, err
	}

	for _, ops := range [][]*operation{pairs, renewals} {
		if err := compare(ctx, s.rounds*turns, ops); err != nil {
			return nil, err
		}
	}

	return []table{
		operationTable("acquire + release, µs", pairs, notes),
		operationTable("one renewal, µs", renewals, nil),
	}, nil
}

// operationTable returns the table of operations, of which the first is the floor.
func operationTable(title string, ops []*operation, notes []string) table {
	t := table{
		Title:   title,
		Columns: []string{"p50", "p99", "least", "p50 x floor", "least x floor", "allocations", "requests"},
		Notes:   notes,
	}

	floor := ops[0].took
	for _, op := range ops {
		values := append(op.took.us(50, 99, 0), ratio(op.took, floor, 50), ratio(op.took, floor, 0))
		t.Rows = append(t.Rows, row{op.name, append(values, op.allocs, op.requests)})
	}

	return t
}

// compare measures all operations in turn. Then it repeats each by itself, to count its allocations and requests. The
// order changes with every turn, because an operation is faster right after another one on the same server.
func compare(ctx context.Context, n int, ops []*operation) error {
	for _, op := range ops {
		op.took = make(sample, 0, n)
	}
	for i := range n + turns {
		for _, k := range rand.Perm(len(ops)) {
			op := ops[k]
			began := time.Now()
			err := op.do(ctx)
			took := time.Since(began)

			if err != nil {
				return fmt.Errorf("%s: %w", op.name, err)
			}
			if i >= turns { // the first turns are warm-up
				op.took = append(op.took, took)
			}
		}
	}

	for _, op := range ops {
		if err := op.count(ctx, max(100, n/10)); err != nil {
			return fmt.Errorf("%s: %w", op.name, err)
		}
	}

	return nil
}

// count counts the allocations of the whole process, because a client works in goroutines of its own.
func (op *operation) count(ctx context.Context, n int) error {
	before, err1 := op.calls(ctx)
	var from, to runtime.MemStats
	runtime.ReadMemStats(&from)

	for range n {
		if err := op.do(ctx); err != nil {
			return err
		}
	}

	runtime.ReadMemStats(&to)
	after, err2 := op.calls(ctx)
	op.allocs = round(number(to.Mallocs-from.Mallocs)/number(n), 0)

	if op.requests = none; op.server != nil {
		op.requests = round(number(requests(before, after, op.inScripts))/number(n), 1)
	}
	return errors.Join(err1, err2)
}

func (op *operation) calls(ctx context.Context) (map[string]int, error) {
	if op.server == nil {
		return nil, nil
	}
	return op.server.calls(ctx)
}

// pairs returns the operations that acquire and release, the floor first.
func (l *lab) pairs(ctx context.Context, srv *redisServer) ([]*operation, error) {
	store, err := l.store(ctx, srv)
	if err != nil {
		return nil, err
	}

	all := []*operation{
		{name: rawPair, server: srv, do: func(ctx context.Context) error { return setAndDelete(ctx, srv.client) }},
		{name: "Regent, the store alone: two swaps", server: srv, inScripts: scripted, do: swaps(store)},
	}
	for _, p := range []struct {
		name    string
		cfg     regent.Config
		running bool // the member leads another election all the time
	}{
		{"`Member.Lead`, profile lock", regent.Lock(), true},
		{"`Member.Lead`, profile cluster", regent.Cluster(), true},
		{"`Member.Lead`, profile lock, and the member starts and stops with it", regent.Lock(), false},
	} {
		op, err := l.lead(ctx, p.name, p.cfg, p.running)
		if err != nil {
			return nil, err
		}
		all = append(all, op)
	}

	for _, s := range sides(30 * time.Second)[2:] {
		if s.postgres {
			continue
		}
		c, err := s.open(ctx, srv.addr)
		if err != nil {
			return nil, err
		}

		l.onClose(c.Close)
		all = append(all, &operation{name: s.name, server: srv, inScripts: s.inScripts,
			do: func(ctx context.Context) error { return c.Once(ctx, election) }})
	}

	return all, nil
}

// lead returns Member.Lead as an operation. It has a server of its own, because members get a notification of every
// term on theirs.
func (l *lab) lead(ctx context.Context, name string, cfg regent.Config, running bool) (*operation, error) {
	srv, err := l.redis()
	if err != nil {
		return nil, err
	}

	m, err := newRegentMember(ctx, srv.addr, cfg, nil)
	if err != nil {
		return nil, err
	}

	l.onClose(m.Close)
	if running { // so that the member does not start and stop with each term
		other := campaign(ctx, m, "bench:other")
		l.onClose(func() { _ = other.end() })
		if _, err := other.leads(ctx); err != nil {
			return nil, err
		}
	}

	return &operation{name: name, server: srv, inScripts: scripted, do: func(ctx context.Context) error {
		return m.Once(ctx, election)
	}}, nil
}

func (l *lab) store(ctx context.Context, srv *redisServer) (*redis.Store, error) {
	store, err := redis.Open(ctx, "redis://"+srv.addr, redis.Options{})
	if err == nil {
		l.onClose(func() { closeQuietly(store) })
	}
	return store, err
}

func setAndDelete(ctx context.Context, c rueidis.Client) error {
	if err := c.Do(ctx, c.B().Set().Key("raw").Value("holder").Nx().PxMilliseconds(30000).Build()).Error(); err != nil {
		return err
	}
	return c.Do(ctx, c.B().Del().Key("raw").Build()).Error()
}

// swaps returns the swaps by which a member claims and releases an election.
func swaps(store *redis.Store) func(context.Context) error {
	l := driver.Record{Name: "bench:swaps", Duration: 30 * time.Second}
	who := driver.Identity{ID: "bench", Incarnation: crand.Text()}
	return func(ctx context.Context) (err error) {
		next := l
		next.Holder = who
		next.Epoch = l.Epoch + 1
		next.Nonce = l.Nonce + 1
		next.Since = time.Now()

		if next, err = store.Swap(ctx, next); err != nil {
			return err
		}
		next.Holder = driver.Identity{}
		next.Nonce++
		next.Since = time.Time{}
		l, err = store.Swap(ctx, next)

		return err
	}
}
