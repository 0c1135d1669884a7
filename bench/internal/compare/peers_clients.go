package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
)

// hangLimit is how long after the end of its window a client may take to return. After that it counts as hanging.
const hangLimit = 15 * time.Second

// pairsOfAllClients measures acquisitions and releases by several clients, with each number of clients.
func pairsOfAllClients(ctx context.Context, servers *peerServers, s peerSettings, all []Peer) ([]table, error) {
	var tables []table
	for _, n := range s.clients {
		few := slices.DeleteFunc(slices.Clone(all), func(p Peer) bool { return 0 < p.MostClients && p.MostClients < n })
		here, err := servers.sharing(ctx, few)
		if err != nil {
			return nil, err
		}

		t, err := pairsOfClients(ctx, s, here, n)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	return tables, nil
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
