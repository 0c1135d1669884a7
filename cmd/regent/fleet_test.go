package main

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

// fleet is many real nodes of profile fleet on one server.
type fleet struct {
	t     *testing.T
	home  *testing.T   // whose end is the end of all nodes
	redis *redisServer // nil on S3
	log   *s3Log       // nil on Redis
	store string       // the address
	env   func(name string) []string
	size  int
	args  []string
	dirs  []string // of the nodes, kept over restarts
	nodes []*daemon
	began []time.Time // when each process was started
	next  bool        // after each leader the smallest ID must lead

	// how long after the claim of a new leader the last node knows of it; 0 for any time
	follow time.Duration
}

func newFleet(t *testing.T, size int, args ...string) *fleet {
	t.Helper()

	if _, err := binary(); err != nil { // so that no measurement includes the build
		t.Fatal(err)
	}
	r := newRedis(t)
	r.sync = "no" // the test measures what nodes send, not the disk
	r.start()

	none := func(string) []string { return nil }
	f := &fleet{t: t, home: t, redis: r, store: r.address(), env: none}
	f.args = append([]string{"--profile", "fleet"}, args...)
	f.of(size)
	return f
}

// of gives the fleet its size.
func (f *fleet) of(size int) {
	f.size = size
	f.nodes = make([]*daemon, size)
	f.began = make([]time.Time, size)
	for range size {
		f.dirs = append(f.dirs, inMemory(f.t))
	}
}

// start starts all nodes at once, the one with the smallest ID in the middle.
func (f *fleet) start() {
	for i := range f.size {
		f.launch((i + f.size/2) % f.size)
	}
}

// launch starts one node.
func (f *fleet) launch(k int) {
	name := fmt.Sprintf("n%03d", k)
	args := append(serveArgs(f.home, name, f.store), "--data-dir", f.dirs[k])
	f.began[k] = time.Now()
	f.nodes[k] = launch(f.home, name, command(f.home, f.env(name), append(args, f.args...)...), nil)
}

// stop stops all nodes at once, and waits for them.
func (f *fleet) stop() {
	f.t.Helper()

	all := f.alive()
	for _, d := range all {
		d.signal(syscall.SIGTERM)
	}
	for _, d := range all {
		select {
		case <-d.gone:
		case <-time.After(60 * time.Second):
			f.t.Fatalf("%s did not stop", d.name)
		}
	}
}

// leader waits until all nodes name the same leader, and returns it.
func (f *fleet) leader() *daemon {
	f.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()

	for limit := time.Now().Add(90 * time.Second); time.Now().Before(limit); <-tick.C {
		var first *daemon
		for _, d := range f.nodes {
			if len(d.said("became leader")) > 0 {
				first = d
				break
			}
		}

		if first == nil {
			continue
		}
		known := 1
		for _, d := range f.nodes {
			if d != first && len(d.said("leader changed.*new_leader="+first.name+"( |$)")) > 0 {
				known++
			}
		}

		if known == f.size {
			return first
		}
	}

	f.t.Fatal("no leader that all nodes name")
	return nil
}

// prompt reports whether this machine was quick enough: the smallest ID had joined before the first node ended its wait
// for the others. On a slow machine processes do not start at once.
func (f *fleet) prompt(jitter time.Duration) bool {
	first := f.nodes[0].logged("msg=serving")
	for _, d := range f.nodes {
		if at := d.logged("msg=serving"); at.Before(first) {
			first = at
		}
	}

	return f.nodes[0].logged("member:joined").Before(first.Add(jitter + 800*time.Millisecond))
}

// watchMachine measures how late this process is scheduled. The returned function ends that and returns the longest
// delay. If it is long, the nodes were late as well.
func watchMachine() func() time.Duration {
	const step = 20 * time.Millisecond
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		worst := time.Duration(0)
		for last := time.Now(); ; {
			select {
			case <-stop:
				longest <- worst
				return
			case <-time.After(step):
				worst = max(worst, time.Since(last)-step)
				last = time.Now()
			}
		}
	}()

	return func() time.Duration {
		close(stop)
		return <-longest
	}
}

// led checks that the smallest ID leads, in this many rounds of restarting all nodes over the same store. The function
// each starts them, and reports whether the round counts. A round in which another node leads does not count if the
// machine stalled.
func (f *fleet) led(jitter time.Duration, rounds int, each func() bool) {
	f.t.Helper()
	const still = 300 * time.Millisecond

	for done, tries := 0, 0; done < rounds; tries++ {
		if tries > rounds+5 {
			f.t.Skipf("only %d of %d rounds count: the machine is too slow to start %d processes at once; TestFleet "+
				"of the library proves the same in virtual time", done, tries, f.size)
		}

		delay := watchMachine()
		counts := each()
		first := f.leader()
		late := delay()
		f.t.Logf("%s leads; this process was late by at most %v", first.name, late)

		if counts && (first == f.nodes[0] || late < still && f.prompt(jitter)) {
			done++
			if first != f.nodes[0] {
				f.t.Errorf("round %d: %s leads", done, first.name)
			}
		}

		f.stop()
	}
}

func TestFleet(t *testing.T) {
	const half = 30 // seconds

	// A few processes vary more than many. So they have more time, and one round may fail by chance, but not three.
	t.Run("J01_J11_J13_no_second_of_the_first_half_minute_has_three_times_the_mean_and_the_smallest_ID_leads",
		func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 24, "--startup-jitter-max", "10s")
			log := f.redis.monitor()
			uneven := 0
			f.led(10*time.Second, 1, func() bool {
				from := f.redis.now()
				f.start()
				<-time.After((half + 1) * time.Second)

				counted, err := log.spread(t, from, half)
				if err == nil {
					return counted
				}

				if uneven++; uneven == 3 {
					t.Error(err)
					return true
				}

				t.Logf("chance, or a herd: %v", err)
				return false
			})
		})

	t.Run("J15_after_every_restart_of_all_over_a_used_store_the_smallest_ID_leads", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, 10, "--startup-jitter-max", "2s", "--heartbeat-interval", "2s")
		f.led(2*time.Second, 4, func() bool {
			f.start()
			return true
		})
	})

	for _, size := range []int{40, 50} {
		t.Run(fmt.Sprintf("J01_J11_J15_%d_processes_with_defaults_over_restarts_of_all", size), func(t *testing.T) {
			if os.Getenv("REGENT_LONG") == "" {
				t.Skip("takes minutes: 'make faults' runs it")
			}
			f := newFleet(t, size)
			log := f.redis.monitor()
			f.led(5*time.Second, 5, func() bool {
				from := f.redis.now()
				f.start()
				<-time.After((half + 1) * time.Second)
				return log.even(t, from, half)
			})
		})
	}
}
