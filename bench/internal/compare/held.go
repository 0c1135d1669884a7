package compare

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent"
)

// usage is what a process that holds many elections reports about itself.
type usage struct {
	CPU        time.Duration // used so far
	At         time.Time
	Heap       uint64 // in use
	RSS        uint64
	Goroutines int
	Terms      uint64 // begun: more than there are elections if some were lost
}

// The lines that such a process writes and reads.
const (
	saysHeld  = "held"
	saysUsage = "usage "
	askUsage  = "usage\n"
)

// held runs a process that holds many elections, and measures what it costs to keep them. It is a process of its own,
// so that nothing of the bench is counted.
func held(ctx context.Context, l *lab, s settings) ([]table, error) {
	t := heldTable(s)
	t.Notes = append(t.Notes, "Regent renews by one heartbeat each 1.5 s; the peers' leases of 8 s are each renewed "+
		"every third of it, by rueidislock itself, and for the others by a loop, as their users have to.")
	for _, side := range sides(8 * time.Second) {
		if side.postgres || side.name == regentLock {
			continue // PostgreSQL renews nothing; the profile lock is not for thousands of elections
		}

		srv, err := l.redis()
		if err != nil {
			return nil, err
		}
		r, err := holdFor(ctx, side, srv.addr, srv.counter(side.inScripts), s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", side.name, err)
		}

		t.Rows = append(t.Rows, r)
	}

	return []table{t}, nil
}

// heldTable returns a table without rows.
func heldTable(s settings) table {
	return table{Title: fmt.Sprintf("%d elections", s.elections),
		Columns: []string{"requests/s", "CPU %", "heap, MB", "RSS, MB", "goroutines", "s to acquire all"},
		Notes:   []string{fmt.Sprintf("Requests and processor time of the holder over %v.", s.window)}}
}

// holdFor starts the process of one side, and returns its row.
func holdFor(ctx context.Context, side side, addr string, requests counter, s settings) (row, error) {
	self, err := os.Executable()
	if err != nil {
		return row{}, err
	}

	began := time.Now()
	n, err := startNode(exec.Command(self,
		role{Side: side.name, Addr: addr, TTL: 8 * time.Second, Elections: s.elections}.args()...))
	if err != nil {
		return row{}, err
	}

	r, err := observe(ctx, n, requests, side, s, began)
	return r, errors.Join(err, n.stop())
}

// observe measures a process that holds elections.
func observe(ctx context.Context, n *node, requests counter, side side, s settings, began time.Time) (row, error) {
	up, err := n.awaitIn(s.acquire+waitLimit, saysHeld)
	if err != nil {
		return row{}, err
	}
	if err := pause(ctx, s.window/10, s.window/10+1); err != nil { // until the acquisition has no effect any more
		return row{}, err
	}

	from, err1 := n.usage()
	before, err2 := requests(ctx)
	err3 := pause(ctx, s.window, s.window+1)
	to, err4 := n.usage()

	after, err5 := requests(ctx)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return row{}, err
	}
	if to.Terms != uint64(s.elections) {
		return row{}, fmt.Errorf("%d terms for %d elections: some were lost meanwhile", to.Terms, s.elections)
	}

	wall := to.At.Sub(from.At)
	return row{side.name, []number{
		(after - before) / number(wall.Seconds()),
		number(to.CPU-from.CPU) / number(wall) * 100,
		number(to.Heap) / 1e6, number(to.RSS) / 1e6, number(to.Goroutines), number(up.at.Sub(began).Seconds()),
	}}, nil
}

// usage asks a process for its usage.
func (n *node) usage() (usage, error) {
	if _, err := io.WriteString(n.in, askUsage); err != nil {
		return usage{}, err
	}
	l, err := n.await(saysUsage)
	if err != nil {
		return usage{}, err
	}

	var u usage
	return u, json.Unmarshal([]byte(strings.TrimPrefix(l.text, saysUsage)), &u)
}

// holdElections runs the process that holds elections.
func holdElections(ctx context.Context, s side, r role, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	var terms atomic.Uint64
	up := func() {
		if terms.Add(1) == uint64(r.Elections) {
			fmt.Fprintln(out, saysHeld)
		}
	}

	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			b, _ := json.Marshal(ownUsage(terms.Load()))
			fmt.Fprintf(out, "%s%s\n", saysUsage, b)
		}
	}()

	names := make([]string, r.Elections)
	for i := range names {
		names[i] = fmt.Sprintf("bench/%05d", i)
	}

	if s.store != nil {
		return holdByMember(ctx, s, r.Addr, names, up)
	}

	c, err := s.open(ctx, r.Addr)
	if err != nil {
		return err
	}
	defer c.Close()

	var wg sync.WaitGroup
	for _, name := range names {
		wg.Go(func() {
			if err := c.Hold(ctx, name, up); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}

	wg.Wait()

	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}

	return nil
}

// holdByMember holds all elections with one member, as the library intends it.
func holdByMember(ctx context.Context, s side, addr string, names []string, up func()) error {
	m, err := newMemberOn(ctx, s.store, addr, s.cfg, func(e regent.Event) {
		if e.Kind == regent.EventBecameLeader {
			up()
		}
	})
	if err != nil {
		return err
	}
	defer m.Close()

	duties := make([]regent.Duty, len(names))
	for i, name := range names {
		duties[i] = regent.Duty{Election: name}
	}

	if err := m.member.Run(ctx, duties...); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// ownUsage returns the usage of this process after a garbage collection.
func ownUsage(terms uint64) usage {
	cpu := cpuTime()
	at := time.Now()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)

	return usage{CPU: cpu, At: at, Heap: m.HeapInuse, RSS: residentSet(), Goroutines: runtime.NumGoroutine(),
		Terms: terms}
}

// residentSet returns the resident memory of this process, or 0 where it is not known.
func residentSet() uint64 {
	b, _ := os.ReadFile("/proc/self/statm")
	var size, pages uint64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		return 0
	}

	return pages * uint64(os.Getpagesize())
}
