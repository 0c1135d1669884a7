package main

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

// operation is something that is done over and over, by one client that is alone with its key.
type operation struct {
	name      string
	do        func(context.Context) error
	server    *redisServer // that counts its requests; nil if it is none of ours
	inScripts []string

	took             sample
	allocs, requests number
}

const (
	rawPair = "raw `SET NX PX` + `DEL`, the floor"
	rawSet  = "raw `SET PX`, the floor"
)

// turns is how many operations make a round: they are short.
const turns = 20

// acquire compares an acquisition and a release with the plainest pair of commands there is, and a renewal with the plainest one.
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
		l.onClose(c.close)
		pairs = append(pairs, &operation{name: advisoryPeer, do: func(ctx context.Context) error { return c.once(ctx, election) }})
	} else if notes = append(notes, err.Error()); !errors.Is(err, errNoPostgres) {
		return nil, err
	}
	renewals, err := l.renewals(ctx, srv)
	if err != nil {
		return nil, err
	}
	var tables []table
	for _, part := range []struct {
		title string
		ops   []*operation
		notes []string
	}{{"acquire + release, µs", pairs, notes}, {"one renewal, µs", renewals, nil}} {
		if err := compare(ctx, s.rounds*turns, part.ops); err != nil {
			return nil, err
		}
		t := table{Title: part.title, Columns: []string{"p50", "p99", "least", "p50 x floor", "least x floor", "allocations", "requests"}, Notes: part.notes}
		for _, op := range part.ops {
			floor := part.ops[0].took
			t.Rows = append(t.Rows, row{op.name, append(op.took.us(50, 99, 0), ratio(op.took, floor, 50), ratio(op.took, floor, 0), op.allocs, op.requests)})
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// compare does all operations by turns, and then each for itself, to count what it asks of the memory and of the server. The order changes
// with every turn: whoever comes after somebody on the same server finds it awake.
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
			if i >= turns { // the first ones warm up
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

// count takes the whole process into account, since a client works in goroutines of its own.
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

// pairs are the ways to acquire and release, the floor first.
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
		running bool
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
		l.onClose(c.close)
		all = append(all, &operation{name: s.name, server: srv, inScripts: s.inScripts, do: func(ctx context.Context) error { return c.once(ctx, election) }})
	}
	return all, nil
}

// lead is the whole of Member.Lead, on a server of its own: members hear of every change of hands on theirs.
func (l *lab) lead(ctx context.Context, name string, cfg regent.Config, running bool) (*operation, error) {
	srv, err := l.redis()
	if err != nil {
		return nil, err
	}
	m, err := newRegentMember(ctx, srv.addr, cfg, nil)
	if err != nil {
		return nil, err
	}
	l.onClose(m.close)
	if running { // it holds another election all the time, so that it need not start and stop with each term
		other := stand(ctx, m, "bench:other")
		l.onClose(func() { _ = other.end() })
		if _, err := other.leads(ctx); err != nil {
			return nil, err
		}
	}
	return &operation{name: name, server: srv, inScripts: scripted, do: func(ctx context.Context) error { return m.once(ctx, election) }}, nil
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

// swaps claims a seat and releases it, as a member would, with nothing around it.
func swaps(store *redis.Store) func(context.Context) error {
	l := driver.Record{Name: "bench:swaps", Duration: 30 * time.Second}
	who := driver.Identity{ID: "bench", Incarnation: crand.Text()}
	return func(ctx context.Context) (err error) {
		next := l
		next.Holder, next.Epoch, next.Nonce, next.Since = who, l.Epoch+1, l.Nonce+1, time.Now()
		if next, err = store.Swap(ctx, next); err != nil {
			return err
		}
		next.Holder, next.Nonce, next.Since = driver.Identity{}, next.Nonce+1, time.Time{}
		l, err = store.Swap(ctx, next)
		return err
	}
}
